-- Renew the leases of the jobs a process runs.
--
-- KEYS  1 due index  2… one record a job
-- ARGV  1 lease (ms)  2… job id and epoch, in pairs, in the order of the records
-- Returns one number a job: 0 lost, 1 renewed, 2 renewed and a cancel is wanted, 3 renewed and
-- other tenants wait for its slot. A job that has just ended is not lost (1) and not renewed: whoever
-- comes to publish its outcome would find it busy.
--@include turns
local time = redis.call('TIME')
local expiry = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
local answers = {}
for i = 2, #KEYS do
  local id, epoch = ARGV[2 * i - 2], ARGV[2 * i - 1]
  local job = redis.call('HMGET', KEYS[i], 'epoch', 'nonce', 'cancel', 'tenant', 'lane', 'turn',
    'status')
  if job[1] ~= epoch or not job[2] then
    answers[i - 1] = 0
  elseif job[7] ~= 'running' then
    answers[i - 1] = 1
  else
    redis.call('HSET', KEYS[i], 'lease', expiry)
    if job[4] and job[6] ~= 'running' then
      retake_turn(place_of(id))
      redis.call('ZADD', KEYS[1], expiry, id)
    end
    redis.call('ZADD', KEYS[1], 'XX', expiry, id)
    answers[i - 1] = job[3] and 2 or job[5] and others_wait(job[5], job[4]) and 3 or 1
  end
end
return answers
