-- A worker has claimed a job of which it cannot open something: that counts as no start, and the job
-- is left alone for a while.
--
-- KEYS  1 record
-- ARGV  1 nonce of the claim  2 time (ms) for which to leave it alone
-- Returns 1, or 0 if somebody else has the job by now.
local job = redis.call('HMGET', KEYS[1], 'nonce', 'status', 'tries')
if job[1] ~= ARGV[1] then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if job[2] == 'running' and tonumber(job[3]) > 0 then
  redis.call('HINCRBY', KEYS[1], 'tries', -1)
end
redis.call('HSET', KEYS[1], 'lease', now + ARGV[2])
return 1
