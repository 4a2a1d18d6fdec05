-- Renew the leases of the jobs a process runs.
--
-- KEYS  1 due index  2… one record a job
-- ARGV  1 lease (ms)  2… job id and epoch, in pairs, in the order of the records
-- Returns one number a job: 0 lost, 1 renewed, 2 renewed and a cancel is wanted.
local time = redis.call('TIME')
local expiry = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
local answers = {}
for i = 2, #KEYS do
  local id, epoch = ARGV[2 * i - 2], ARGV[2 * i - 1]
  local job = redis.call('HMGET', KEYS[i], 'epoch', 'nonce', 'cancel')
  if job[1] == epoch and job[2] then
    redis.call('HSET', KEYS[i], 'lease', expiry)
    redis.call('ZADD', KEYS[1], 'XX', expiry, id)
    answers[i - 1] = job[3] and 2 or 1
  else
    answers[i - 1] = 0
  end
end
return answers
