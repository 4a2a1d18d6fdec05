-- Append pieces of a reply, while it comes, to the job's live stream. Changes nothing of the job.
--
-- KEYS  1 record  2 live stream
-- ARGV  1 epoch  2 about how many records to keep  3 time (s) to keep them after the last one
--       4… records (JSON each); without any this only asks
-- Returns 0 if fenced (nothing was written), 1 if the reply is wanted, 2 if a cancel is.
-- The last pieces may come when the job has ended; its stream does not outlive its record.
local job = redis.call('HMGET', KEYS[1], 'epoch', 'cancel')
if job[1] ~= ARGV[1] then
  return 0
end
for i = 4, #ARGV do
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'd', ARGV[i])
end
if #ARGV > 3 then
  local left = redis.call('TTL', KEYS[1])
  local keep = tonumber(ARGV[3])
  redis.call('EXPIRE', KEYS[2], left >= 0 and math.min(left, keep) or keep)
end
return job[2] and 2 or 1
