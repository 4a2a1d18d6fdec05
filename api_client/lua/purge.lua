-- Forget a job that has ended.
--
-- KEYS  1 record  2 transcript  3 trace  4 due index  5 prefix of the status indexes
--       6 live stream  7 events  8 the job's announcements
-- ARGV  1 job id  2 "1" to forget it also if its outcome has not been published
-- Returns {"missing"} | {"not_ended", status} | {"not_published"} | {"ok"}
--@include lists
local job = redis.call('HMGET', KEYS[1], 'status', 'published')
local status = job[1]
if not status then
  return {'missing'}
end
if status ~= 'succeeded' and status ~= 'failed' and status ~= 'cancelled' then
  return {'not_ended', status}
end
if not job[2] and ARGV[2] ~= '1' then
  return {'not_published'}
end
list_out(status)
forget_lists(KEYS[5], ARGV[1])
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[6], KEYS[8])
redis.call('ZREM', KEYS[4], ARGV[1])
return {'ok'}
