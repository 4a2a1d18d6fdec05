-- Put newly sealed values in place of old ones in what is told of all jobs; ids and order stay.
--
-- KEYS  1 events (stream)
-- ARGV  for each entry that changes: its id, old value, new value
-- Returns how many were written. Entries that have gone or come meanwhile are not touched.
local old, new = {}, {}
for i = 1, #ARGV, 3 do
  old[ARGV[i]], new[ARGV[i]] = ARGV[i + 1], ARGV[i + 2]
end
local entries, done = redis.call('XRANGE', KEYS[1], '-', '+'), 0
for _, entry in ipairs(entries) do
  local id, fields = entry[1], entry[2]
  for i = 1, #fields, 2 do
    if fields[i] == 'd' and new[id] and fields[i + 1] == old[id] then
      fields[i + 1] = new[id]
      done = done + 1
    end
  end
end
if done == 0 then
  return 0
end
local left = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
for _, entry in ipairs(entries) do
  redis.call('XADD', KEYS[1], entry[1], unpack(entry[2]))
end
if left > 0 then
  redis.call('PEXPIRE', KEYS[1], left)
end
return done
