-- A hint has come to a worker that could do nothing with it: there may be none left in the queue.
--
-- KEYS  1 record
-- The next sweep that finds the job due says so (see sweep.lua). Of a job that is gone nothing is noted.
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], 'missed', 1)
end
