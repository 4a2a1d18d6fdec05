-- Note that the outcome has reached the result backend; from now on everything expires together.
--
-- KEYS  1 record  2 transcript  3 trace  4 due index  5 prefix of the status indexes
--       6 live stream, which has an expiry of its own and must not outlive the job
--       7… see shared/desk.lua
-- ARGV  1 job id  2 channels on which the outcome is announced, comma separated, or ""
--       3 seconds for which announcements are kept at least
-- Returns 1, or 0 if the job is missing or has not ended.
--@include desk
local job = redis.call('HMGET', KEYS[1], 'status', 'ttl', 'published', 'agent', 'outcome')
local status = job[1]
if status ~= 'succeeded' and status ~= 'failed' and status ~= 'cancelled' then
  return 0
end
if job[3] then
  return 1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], 'published', 1)
redis.call('HDEL', KEYS[1], 'owner', 'nonce', 'lease')
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('ZADD', KEYS[5] .. 'published', now + job[2] * 1000, ARGV[1])
remember_lists(status)
for i = 1, 3 do
  redis.call('EXPIRE', KEYS[i], job[2])
end
announce(ARGV[2], status == 'succeeded' and 'finished' or status, now, job[4], job[5])
redis.call('EXPIRE', KEYS[8], math.max(job[2], ARGV[3]))
if redis.call('TTL', KEYS[6]) > tonumber(job[2]) then
  redis.call('EXPIRE', KEYS[6], job[2])
end
return 1
