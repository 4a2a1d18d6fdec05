-- Add a person's message to a job; the model reads it before its next reply.
--
-- KEYS  1 record  2 transcript  3 trace
-- ARGV  1 message id  2 message (JSON)  3 most messages that may wait
--       4 of how many messages, the latest, the ids are known
-- Returns {"ok"} | {"missing"} | {"ended", status} | {"full", how many wait}
-- A known message id sent again (its reply was lost) is answered "ok" and changes nothing.
--
-- The message is the field "mail:N" of the record until the commit that shows it to the model.
local job = redis.call('HMGET', KEYS[1], 'status', 'mail', 'heard', 'mail_ids', 'mail_id')
local status = job[1]
if not status then
  return {'missing'}
end
local known = job[4] and cjson.decode(job[4]) or {}
if job[5] then
  table.insert(known, job[5])  -- the last one, which is all that an older program has noted
end
for _, id in ipairs(known) do
  if id == ARGV[1] then
    return {'ok'}
  end
end
if status == 'succeeded' or status == 'failed' or status == 'cancelled' then
  return {'ended', status}
end
local waiting = tonumber(job[2] or 0) - tonumber(job[3] or 0)
if waiting >= tonumber(ARGV[3]) then
  return {'full', tostring(waiting)}
end
local number = redis.call('HINCRBY', KEYS[1], 'mail', 1)
while #known >= tonumber(ARGV[4]) do
  table.remove(known, 1)
end
redis.call('HSET', KEYS[1], 'mail:' .. number, ARGV[2], 'mail_id', ARGV[1])
if #known > 0 then
  redis.call('HSET', KEYS[1], 'mail_ids', cjson.encode(known))
end
redis.call('XADD', KEYS[3], '*', 'message', ARGV[2])
return {'ok'}
