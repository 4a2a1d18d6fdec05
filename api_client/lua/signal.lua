-- Close an open pause with a decision; the first one wins.
--
-- KEYS  see shared/desk.lua
-- ARGV  1 job id  2 pause id  3 signal (JSON)  4 signal kind  5 by whom  6 signal id
--       7 time (ms) to give the hint before a sweep sends another
--       8 labels of the signer (JSON), or "" for one who may everything
--       9 the outcome (JSON) that the signal kind "cancel" gives the job
-- Returns {"ok"} | {"missing"} | {"not_paused", status} | {"answered", answered JSON}
--       | {"wrong_pause", open pause id} | {"not_allowed", labels, comma separated}
--       | {"refused", accepted kinds, comma separated}
-- The same signal id sent again (its reply was lost) is answered "ok" and changes nothing.
--@include desk
local job = redis.call('HMGET', KEYS[1], 'status', 'pause', 'answered', 'labels', 'agent')
local status = job[1]
if not status then
  return {'missing'}
end
if job[3] then
  local answered = cjson.decode(job[3])
  if answered.pause_id == ARGV[2] then
    if answered.signal_id == ARGV[6] then
      return {'ok'}
    end
    return {'answered', job[3]}
  end
end
if status ~= 'paused' then
  return {'not_paused', status}
end
local pause = cjson.decode(job[2])
if pause.id ~= ARGV[2] then
  return {'wrong_pause', pause.id}
end
local labels = job[4] and cjson.decode(job[4]) or pause.labels or {}
if ARGV[8] ~= '' and #labels > 0 then
  local held = {}
  for _, label in ipairs(cjson.decode(ARGV[8])) do
    held[label] = true
  end
  local allowed = false
  for _, label in ipairs(labels) do
    allowed = allowed or held[label]
  end
  if not allowed then
    return {'not_allowed', table.concat(labels, ', ')}
  end
end
local accepted = false
for _, kind in ipairs(pause.accepts) do
  accepted = accepted or kind == ARGV[4]
end
if not accepted then
  return {'refused', table.concat(pause.accepts, ', ')}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answered = cjson.encode({
  pause_id = ARGV[2], signal_id = ARGV[6], kind = ARGV[4], by = ARGV[5], at = now
})
redis.call('HSET', KEYS[1], 'status', 'queued', 'since', now, 'signal', ARGV[3],
  'answered', answered, 'hints', 0, 'tries', 0)
leave_inbox()
if ARGV[4] == 'cancel' then  -- the next claim, which the hint below asks for, ends the job
  redis.call('HSET', KEYS[1], 'cancel', ARGV[9])
end
list_out('paused')
list_in('queued', now)
redis.call('ZADD', KEYS[4], now + ARGV[7], ARGV[1])
redis.call('XADD', KEYS[3], '*', 'signal', ARGV[3])
tell('resumed', job[5], {pause = pause.id, kind = pause.kind, signal = ARGV[4], by = ARGV[5]})
return {'ok'}
