-- Note what became of one attempt to announce something.
--
-- KEYS  1 outbox  2 the job's announcements  3 log of those that are over
-- ARGV  1 "JOB/NUMBER"  2 number  3 "delivered", "given_up" or "pending"  4 why it failed, or ""
--       5 time (ms) until the next attempt of a pending one  6 how many the log keeps
--       7 "1" if this was no attempt, and counts as none
-- Returns 1, or 0 if it is over already or its job has been forgotten.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HSET', KEYS[2], ARGV[2] .. ':state', ARGV[3], ARGV[2] .. ':error', ARGV[4])
  if ARGV[7] == '1' then
    redis.call('HINCRBY', KEYS[2], ARGV[2] .. ':tries', -1)
  end
end
if ARGV[3] == 'pending' then
  redis.call('ZADD', KEYS[1], now + ARGV[5], ARGV[1])
  return 1
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[3], now, ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -1 - ARGV[6])
return 1
