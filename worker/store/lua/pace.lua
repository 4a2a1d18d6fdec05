-- Keep one appointment of a pause: remind, or escalate to other people. (Decisions are signals.)
--
-- KEYS  see shared/desk.lua
-- ARGV  1 job id  2 pause id  3 how many appointments have been kept before this one
--       4 "reminder" or "escalated"  5 labels of the people who may answer from now on (JSON), or ""
--       6 channels on which it is announced, comma separated, or ""
-- Returns 1, or 0 if this is not what the pause waits for; then nothing was changed.
--@include desk
local job = redis.call('HMGET', KEYS[1], 'status', 'pause', 'kept', 'asked', 'since', 'labels',
  'agent', 'tenant')
if job[1] ~= 'paused' or job[3] ~= ARGV[3] then
  return 0
end
local pause = cjson.decode(job[2])
if pause.id ~= ARGV[2] or not pause.timetable[ARGV[3] + 1] then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since, kept = tonumber(job[5]), ARGV[3] + 1
local asked = tonumber(job[4] or since)
local labels = job[6] and cjson.decode(job[6]) or pause.labels or {}
redis.call('HSET', KEYS[1], 'kept', kept, 'hints', 0)
if ARGV[5] ~= '' then
  labels, asked = cjson.decode(ARGV[5]), now
  local left = deadline_in(pause.timetable, kept + 1)
  leave_inbox()
  enter_inbox(job[7], job[8], pause.kind, labels, since, left and asked + left)
  redis.call('HSET', KEYS[1], 'kept', kept, 'asked', asked, 'labels', ARGV[5])
end
local next = pause.timetable[kept + 1]
if next then
  redis.call('ZADD', KEYS[4], asked + math.floor(next.after_s * 1000), ARGV[1])
else
  redis.call('ZREM', KEYS[4], ARGV[1])
end
local told = {pause = pause.id, kind = pause.kind, labels = labels[1] and labels or nil}
redis.call('XADD', KEYS[3], '*', ARGV[4], cjson.encode(told))
tell(ARGV[4], job[7], told)
announce(ARGV[6], ARGV[4], now, job[7], job[2])
return 1
