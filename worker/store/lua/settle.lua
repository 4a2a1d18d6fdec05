-- Give the lease back: pause, back off, hand over, or end the job, with its last messages.
--
-- KEYS  see shared/desk.lua
-- ARGV  1 job id  2 epoch, or epoch and nonce of the claim  3 number of this commit  4 that number, a blank, the run state
--       5 new status (paused, waiting, queued, succeeded, failed)
--       6 pause or outcome (JSON), or ""  7 delay (ms) until a sweep looks at the job; the
--       owner of a job that ended may publish it alone for that long
--       8 event kind  9 event data (JSON)  10 "1" if the waiting signal is consumed
--       11 channels on which a pause is announced, comma separated, or ""
--       12 steps of this slice  13 "1": whoever takes a hint publishes an outcome, at once
--       14… new messages (JSON each)
-- Returns {"fenced"} or {status the job now has, jobs to hint}: "cancelled" if a cancel was wanted,
-- which wins over every other end. Jobs to hint: {job id, status, spec, …}, whose turn has come; a
-- job with a tenant that is handed over is hinted when it is among these. The same commit sent again is recognised by its number.
--@include desk
--@include turns
local job = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'status', 'cancel', 'agent', 'tenant',
  'taken')
if not job[1] or (job[1] ~= ARGV[2] and job[1] .. ' ' .. (job[7] or '') ~= ARGV[2]) then
  return {'fenced'}
end
local seq = job[2] and string.match(job[2], '^%d+') or '0'
if seq == ARGV[3] and job[3] ~= 'running' then
  return {job[3]}
end
if job[3] ~= 'running' or tonumber(seq) + 1 ~= tonumber(ARGV[3]) then
  return {'fenced'}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local status, payload, kind, data = ARGV[5], ARGV[6], ARGV[8], ARGV[9]
if job[4] then
  status, payload, kind, data = 'cancelled', job[4], 'cancelled', '{}'
end
for i = 14, #ARGV do
  redis.call('RPUSH', KEYS[2], ARGV[i])
end
redis.call('HSET', KEYS[1], 'run', ARGV[4], 'status', status, 'since', now,
  'tries', 0, 'hints', 0)
if ARGV[10] == '1' then
  redis.call('HDEL', KEYS[1], 'signal', 'pause')
end
list_out('running')
local due = now + ARGV[7]
local place = job[6] and place_of(ARGV[1])
local lane = place and place.lane
if place then
  charge_slice(place, tonumber(ARGV[12]), now)
  step_out(place)
end
local ended = status == 'succeeded' or status == 'failed' or status == 'cancelled'
local reason = status == 'failed' and cjson.decode(payload).reason or nil
if ended then
  -- the runner publishes next: nobody else may, until it has had the time to
  redis.call('HSET', KEYS[1], 'lease', ARGV[13] == '1' and 0 or due, 'outcome', payload)
  redis.call('HDEL', KEYS[1], 'pause', 'signal')
else
  redis.call('HDEL', KEYS[1], 'owner', 'nonce', 'lease')
end
local pause = status == 'paused' and cjson.decode(payload)
local timetable = pause and pause.timetable or {}
if pause then
  redis.call('HSET', KEYS[1], 'pause', payload)
  if pause.kind == 'operator' then
    redis.call('HDEL', KEYS[1], 'halt')
  end
  local left = deadline_in(timetable, 1)
  enter_inbox(job[5], job[6], pause.kind, pause.labels or {}, now, left and now + left)
elseif status == 'waiting' then
  if kind == 'awaiting' then
    redis.call('HSET', KEYS[1], 'awaits', 1)
    if redis.call('HGET', KEYS[1], 'woken') then due = now end
  end
  redis.call('HSET', KEYS[1], 'due_at', due)
end
list_in(status, now)
if timetable[1] then
  redis.call('HSET', KEYS[1], 'kept', 0)
  redis.call('ZADD', KEYS[4], now + math.floor(timetable[1].after_s * 1000), ARGV[1])
elseif pause then
  redis.call('ZREM', KEYS[4], ARGV[1])
elseif place and status == 'queued' then
  line_up(place)
else
  redis.call('ZADD', KEYS[4], due, ARGV[1])
end
redis.call('XADD', KEYS[3], '*', kind, data)
if pause then
  slim_trace()
  tell('paused', job[5], {pause = pause.id, kind = pause.kind, labels = pause.labels})
  announce(ARGV[11], 'paused', now, job[5], payload)
elseif ended then
  tell(status == 'succeeded' and 'finished' or status, job[5], {reason = reason})
end
if not lane then
  return {status, {}}
end
local hints = fill_window(lane, now)
if place.lane ~= lane then
  add_hints(hints, fill_window(place.lane, now))
end
return {status, hints}
