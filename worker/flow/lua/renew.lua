-- These calls are still being made.
--
-- KEYS  1 calls in flight  (see reserve.lua)
-- ARGV  1 time (ms) after which a call that is not renewed is over  2… calls
-- Returns how many of them were known.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = 0
for i = 2, #ARGV do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i])
    known = known + 1
  end
end
if known > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return known
