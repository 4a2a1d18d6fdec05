-- Note that a person wants a job paused; its runner does it at the next commit.
--
-- KEYS  1 record  2 transcript  3 trace
-- ARGV  1 who and why (JSON)
-- Returns {"ok"} | {"missing"} | {"ended", status} | {"paused"}
-- A wish that is noted already stays as it is.
local job = redis.call('HMGET', KEYS[1], 'status', 'halt')
local status = job[1]
if not status then
  return {'missing'}
end
if status == 'succeeded' or status == 'failed' or status == 'cancelled' then
  return {'ended', status}
end
if status == 'paused' then
  return {'paused'}
end
if not job[2] then
  redis.call('HSET', KEYS[1], 'halt', ARGV[1])
  redis.call('XADD', KEYS[3], '*', 'pause_wanted', ARGV[1])
end
return {'ok'}
