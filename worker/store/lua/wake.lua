-- A sub-job has ended: let its parent look.
--
-- KEYS  1 record  2 transcript  3 trace  4 due index  5 prefix of the status indexes
-- ARGV  1 job id
-- Returns the spec (JSON) of a parent that waits for sub-jobs and is due now, else nothing.
-- A parent that is not waiting yet is marked: it will not begin to wait (see settle.lua).
local job = redis.call('HMGET', KEYS[1], 'status', 'awaits', 'spec')
if not job[1] then
  return false
end
if job[1] == 'waiting' and job[2] then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('HSET', KEYS[1], 'due_at', now, 'hints', 0)
  redis.call('ZADD', KEYS[4], now, ARGV[1])
  return job[3]
end
if job[1] == 'running' then
  redis.call('HSET', KEYS[1], 'woken', 1)
end
return false
