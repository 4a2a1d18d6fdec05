-- A model call is over: give its place back, and count what it has really used.
--
-- KEYS  1 use  2 calls in flight  3 state  (see reserve.lua)
-- ARGV  1 call  2 part of the minute in which it was counted  3 tokens beyond those reserved
--       4 how long it took (ms)  5 for how long (ms) the provider wants no other call
-- Returns 1, or 0 if the call had been settled or given up before.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local DAY = 86400000
if tonumber(ARGV[5]) > 0 then
  local closed = tonumber(redis.call('HGET', KEYS[3], 'closed') or 0)
  redis.call('HSET', KEYS[3], 'closed', math.max(closed, now + ARGV[5]))
  redis.call('PEXPIRE', KEYS[3], DAY)
end
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then
  return 0
end
local use = redis.call('HGET', KEYS[1], ARGV[2])
if use then
  local r, t = string.match(use, '^(%d+) (%d+)$')
  redis.call('HSET', KEYS[1], ARGV[2], r .. ' ' .. math.max(0, t + ARGV[3]))
end
local hold = tonumber(redis.call('HGET', KEYS[3], 'hold') or ARGV[4])
redis.call('HSET', KEYS[3], 'hold', math.ceil(hold + (ARGV[4] - hold) / 8))
redis.call('PEXPIRE', KEYS[3], DAY)
return 1
