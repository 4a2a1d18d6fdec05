-- Take one token out of a bucket that fills again by itself.
--
-- KEYS  1 the bucket (hash: left, at)
-- ARGV  1 tokens a second  2 the most it holds
-- Returns 0 if a token was there, else the milliseconds until the next one.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local rate, most = tonumber(ARGV[1]) / 1000, tonumber(ARGV[2])
local bucket = redis.call('HMGET', KEYS[1], 'left', 'at')
local left, at = tonumber(bucket[1] or most), tonumber(bucket[2] or now)
left = math.min(most, left + math.max(0, now - at) * rate)
if left < 1 then
  return math.ceil((1 - left) / rate)
end
redis.call('HSET', KEYS[1], 'left', left - 1, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(most / rate) + 1000)
return 0
