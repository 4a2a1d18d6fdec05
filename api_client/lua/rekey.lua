-- Put newly sealed values in place of old ones; what has changed since it was read stays.
--
-- KEYS  1 record, or announcements of a job  2 transcript  3 trace
-- ARGV  1 number of fields, then for each: field, old value ("": there is none), new value
--       then the number of messages, and for each: index, old value, new value
--       then the id of the trace's last entry, or "" to leave it; its number of entries, and for
--       each: id, kind, new value
-- Returns how many fields, messages and trace entries were written.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local at, done = 1, 0
local function following()
  at = at + 1
  return ARGV[at - 1]
end
for _ = 1, tonumber(following()) do
  local field, old, new = following(), following(), following()
  if (redis.call('HGET', KEYS[1], field) or '') == old then
    redis.call('HSET', KEYS[1], field, new)
    done = done + 1
  end
end
for _ = 1, tonumber(following()) do
  local index, old, new = following(), following(), following()
  if redis.call('LINDEX', KEYS[2], index) == old then
    redis.call('LSET', KEYS[2], index, new)
    done = done + 1
  end
end
local last = following()
if last == '' then
  return done
end
local newest = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
local count = tonumber(following())
if not newest or newest[1] ~= last or redis.call('XLEN', KEYS[3]) ~= count then
  return done
end
local left = redis.call('PTTL', KEYS[3])
redis.call('DEL', KEYS[3])
for _ = 1, count do
  local id, kind, value = following(), following(), following()
  redis.call('XADD', KEYS[3], id, kind, value)
end
if left > 0 then
  redis.call('PEXPIRE', KEYS[3], left)
end
return done + count
