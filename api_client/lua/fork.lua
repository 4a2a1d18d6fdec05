-- Accept a new job that begins with another job's transcript and state.
--
-- KEYS  1 record  2 transcript  3 trace  4 due index  5 prefix of the status indexes
-- ARGV  1 job id  2 spec (JSON)  3 agent  4 schema version  5 retention (s)
--       6 time (ms) to give the first hint  7 run state (JSON) or ""  8 trace record (JSON)
--       9 tenant, or ""  10 labels (JSON), or ""
--       11 the Celery queue that it was sent to, or ""  12 rank of its priority, or ""
--       13… the messages it begins with (JSON each)
-- Returns 1, or 0 if the id exists.
--@include lists
--@include turns
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], 'v', ARGV[4], 'spec', ARGV[2], 'agent', ARGV[3], 'ttl', ARGV[5],
  'created', now, 'status', 'queued', 'since', now, 'epoch', 0, 'tries', 0, 'hints', 0)
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[1], 'run', ARGV[7])
end
note_tenant(ARGV[9], ARGV[11], ARGV[12])
if ARGV[10] ~= '' then
  redis.call('HSET', KEYS[1], 'labelled', ARGV[10])
end
for i = 13, #ARGV do
  redis.call('RPUSH', KEYS[2], ARGV[i])
end
redis.call('ZADD', KEYS[4], now + ARGV[6], ARGV[1])
list_in('queued', now)
redis.call('XADD', KEYS[3], '*', 'submitted', ARGV[8])
return 1
