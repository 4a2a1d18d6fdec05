-- Give the lease back: pause, back off, hand over, or end the job, with its last messages.
--
-- KEYS  1 record  2 transcript  3 trace  4 due index  5 prefix of the status indexes
-- ARGV  1 job id  2 epoch  3 number of this commit  4 that number, a blank, the run state
--       5 new status (paused, waiting, queued, succeeded, failed)
--       6 pause or outcome (JSON), or ""  7 delay (ms) until a sweep looks at the job; the
--       owner of a job that ended may publish it alone for that long
--       8 event kind  9 event data (JSON)  10 "1" if the waiting signal is consumed
--       11… new messages (JSON each)
-- Returns {"fenced"} or {status the job now has}: "cancelled" if a cancel was wanted, which
-- wins over every other end. The same commit sent again is recognised by its number.
local job = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'status', 'cancel')
if job[1] ~= ARGV[2] then
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
for i = 11, #ARGV do
  redis.call('RPUSH', KEYS[2], ARGV[i])
end
redis.call('HSET', KEYS[1], 'run', ARGV[4], 'status', status, 'since', now,
  'tries', 0, 'hints', 0)
if ARGV[10] == '1' then
  redis.call('HDEL', KEYS[1], 'signal', 'pause')
end
redis.call('ZREM', KEYS[5] .. 'running', ARGV[1])
local due = now + ARGV[7]
local ended = status == 'succeeded' or status == 'failed' or status == 'cancelled'
if ended then
  -- the runner publishes next: nobody else may, until it has had the time to
  redis.call('HSET', KEYS[1], 'lease', due, 'outcome', payload)
  redis.call('HDEL', KEYS[1], 'pause', 'signal')
else
  redis.call('HDEL', KEYS[1], 'owner', 'nonce', 'lease')
end
if status == 'paused' then
  redis.call('HSET', KEYS[1], 'pause', payload)
elseif status == 'waiting' then
  if kind == 'awaiting' then
    redis.call('HSET', KEYS[1], 'awaits', 1)
    if redis.call('HGET', KEYS[1], 'woken') then due = now end
  end
  redis.call('HSET', KEYS[1], 'due_at', due)
end
redis.call('ZADD', KEYS[5] .. status, now, ARGV[1])
if status == 'paused' then
  redis.call('ZREM', KEYS[4], ARGV[1])
else
  redis.call('ZADD', KEYS[4], due, ARGV[1])
end
redis.call('XADD', KEYS[3], '*', kind, data)
return {status}
