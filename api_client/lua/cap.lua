-- Say how many jobs may wait for an agent, or for the agents of a queue; it holds at once.
--
-- KEYS  1 caps (hash): see shared/backlogs.lua
-- ARGV  1 "agent:NAME" or "queue:NAME", or either with the name "*"
--       2 "SHARE CAP" of this partition, 0 for no limit; "" to forget it
if ARGV[2] == '' then
  return redis.call('HDEL', KEYS[1], ARGV[1])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
