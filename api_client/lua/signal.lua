-- Close an open pause with a person's decision; the first one wins.
--
-- KEYS  1 record  2 transcript  3 trace  4 due index  5 prefix of the status indexes
-- ARGV  1 job id  2 pause id  3 signal (JSON)  4 signal kind  5 by whom  6 signal id
--       7 time (ms) to give the hint before a sweep sends another
-- Returns {"ok"} | {"missing"} | {"not_paused", status} | {"answered", answered JSON}
--       | {"wrong_pause", open pause id} | {"refused", accepted kinds, comma separated}
-- The same signal id sent again (its reply was lost) is answered "ok" and changes nothing.
local job = redis.call('HMGET', KEYS[1], 'status', 'pause', 'answered')
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
redis.call('ZREM', KEYS[5] .. 'paused', ARGV[1])
redis.call('ZADD', KEYS[5] .. 'queued', now, ARGV[1])
redis.call('ZADD', KEYS[4], now + ARGV[7], ARGV[1])
redis.call('XADD', KEYS[3], '*', 'signal', ARGV[3])
return {'ok'}
