-- Cancel a job: at once if nobody runs it, else at its runner's next commit.
--
-- KEYS  see shared/desk.lua
-- ARGV  1 job id  2 request (JSON: by, note)  3 the outcome (JSON) that this gives the job
-- Returns {"missing"} | {"ended", status} | {"requested"} (a runner holds it) | {"cancelled"}
--@include desk
--@include turns
local job = redis.call('HMGET', KEYS[1], 'status', 'lease', 'cancel', 'agent',
  'tenant')
local status = job[1]
if not status then
  return {'missing'}
end
if status == 'succeeded' or status == 'failed' or status == 'cancelled' then
  return {'ended', status}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if not job[3] then
  redis.call('HSET', KEYS[1], 'cancel', ARGV[3])
  redis.call('XADD', KEYS[3], '*', 'cancel', ARGV[2])
end
if status == 'running' and tonumber(job[2] or 0) > now then
  return {'requested'}
end
leave_inbox()
if job[5] then
  step_out(place_of(ARGV[1]))
end
redis.call('HINCRBY', KEYS[1], 'epoch', 1)
redis.call('HSET', KEYS[1], 'status', 'cancelled', 'since', now, 'outcome', job[3] or ARGV[3],
  'hints', 0)
redis.call('HDEL', KEYS[1], 'owner', 'nonce', 'lease', 'pause', 'signal', 'due_at')
list_out(status)
list_in('cancelled', now)
redis.call('ZADD', KEYS[4], now, ARGV[1])
redis.call('XADD', KEYS[3], '*', 'cancelled', '{}')
tell('cancelled', job[4], cjson.decode(ARGV[2]))
return {'cancelled'}
