-- A job does not want to call a model any more: take it out of the queue.
--
-- KEYS  1 queue  2 when each asks again  3 tokens that each wants  (see reserve.lua)
-- ARGV  1 job
-- Returns 1 if it stood there, else 0.
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
return redis.call('ZREM', KEYS[1], ARGV[1])
