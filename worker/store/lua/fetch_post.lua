-- Take announcements whose time has come; nobody else gets them for a while.
--
-- KEYS  1 outbox  2 prefix of the announcements ("…post:")
-- ARGV  1 most to take  2 time (ms) that their takers have
-- Returns {"JOB/NUMBER", announcement (JSON), tries, packed payload or "", …}. One whose job has been forgotten goes too.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local taken = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local job, number = string.match(id, '^(.*)/(%d+)$')
  local key = KEYS[2] .. job
  local text = redis.call('HGET', key, number)
  if text then
    redis.call('ZADD', KEYS[1], now + ARGV[2], id)
    taken[#taken + 1] = id
    taken[#taken + 1] = text
    taken[#taken + 1] = redis.call('HINCRBY', key, number .. ':tries', 1)
    taken[#taken + 1] = redis.call('HGET', key, number .. ':payload') or ''
  else
    redis.call('ZREM', KEYS[1], id)
  end
end
return taken
