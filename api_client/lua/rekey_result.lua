-- Put newly sealed values in place of old ones among Celery's results; what has changed since stays.
--
-- KEYS  1 a result (string), or those that a chord has gathered (zset or list)
-- ARGV  for each that changes: old value, new value
-- Returns how many were written. Expiry, scores and order stay.
local kind, done = redis.call('TYPE', KEYS[1]).ok, 0
for i = 1, #ARGV, 2 do
  local old, new = ARGV[i], ARGV[i + 1]
  if kind == 'string' then
    if redis.call('GET', KEYS[1]) == old then
      redis.call('SET', KEYS[1], new, 'KEEPTTL')
      done = done + 1
    end
  elseif kind == 'zset' then
    local score = redis.call('ZSCORE', KEYS[1], old)
    if score then
      redis.call('ZADD', KEYS[1], score, new)
      redis.call('ZREM', KEYS[1], old)
      done = done + 1
    end
  elseif kind == 'list' then
    local at = redis.call('LPOS', KEYS[1], old)
    if at then
      redis.call('LSET', KEYS[1], at, new)
      done = done + 1
    end
  end
end
return done
