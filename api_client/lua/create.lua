-- Accept a job once.
--
-- KEYS  1 record (hash)  2 transcript (list)  3 trace (stream)  4 due index (zset)
--       5 prefix of the status indexes (zsets, "…is:" .. status)
-- ARGV  1 job id  2 spec (JSON)  3 agent  4 schema version  5 retention (s)
--       6 time (ms) to give the first hint before a sweep sends another
--       7 delay (ms) before which the job must not start, 0 for none
--       8 "1" if a WAIT for replicas follows: it waits for this connection's last write, so a job
--         that is there already is written to once more, without a change
--       9 tenant, or ""  10 labels (JSON), or ""
-- Returns {1} if the job is new, {0, spec} with the stored spec if the id exists.
--
-- Fields of the record:
--   v spec agent tenant labelled ttl created    written here, never changed
--   status since                 where the job stands, and since when (ms)
--   epoch                        fencing token
--   owner nonce lease            who holds it, for which attempt, until when (ms)
--   tries hints                  starts at this step, the one that runs included; hints in a row
--   run                          number of the last commit, a blank, the loop's small state (JSON)
--   pause signal answered        open pause, the signal not yet consumed, the last one that was
--   kept asked labels            of the open pause: how far its timetable has been kept, since
--                                when those who may answer have been asked, who they are since
--                                the last escalation
--   mail heard mail:N mail_id    messages of people: the last one's number, the last one that
--                                the model was shown, those that wait, the last one's id
--   halt                         a person wants the job paused: who and why (JSON)
--   due_at outcome published
--   start_by                     a job that nobody has begun then (ms) is cancelled by its next claim
--   awaits woken                 it waits for sub-jobs; one of them ended while it was running
--   cancel                       the outcome (JSON) that the job is to have by order of a caller
--@include lists
local stored = redis.call('HGET', KEYS[1], 'spec')
if stored then
  if ARGV[8] == '1' then
    redis.call('HINCRBY', KEYS[1], 'epoch', 0)
  end
  return {0, stored}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- The first write takes memory: a server that has none refuses here, and nothing has changed.
redis.call('HSET', KEYS[1], 'v', ARGV[4], 'spec', ARGV[2], 'agent', ARGV[3], 'ttl', ARGV[5],
  'created', now, 'status', 'queued', 'since', now, 'epoch', 0, 'tries', 0, 'hints', 0)
-- An id whose first job has expired may be used again; the indexes must forget that one.
if redis.call('ZSCORE', KEYS[5] .. 'published', ARGV[1]) then
  forget_lists(KEYS[5], ARGV[1])
end
if ARGV[9] ~= '' then
  redis.call('HSET', KEYS[1], 'tenant', ARGV[9])
end
if ARGV[10] ~= '' then
  redis.call('HSET', KEYS[1], 'labelled', ARGV[10])
end
if ARGV[7] == '0' then
  redis.call('ZADD', KEYS[4], now + ARGV[6], ARGV[1])
  list_in('queued', now)
else
  redis.call('HSET', KEYS[1], 'status', 'waiting', 'due_at', now + ARGV[7])
  redis.call('ZADD', KEYS[4], now + ARGV[7], ARGV[1])
  list_in('waiting', now)
end
if string.find(ARGV[2], '"start_within_ms"', 1, true) then
  local within = tonumber(cjson.decode(ARGV[2]).start_within_ms)
  if within then
    redis.call('HSET', KEYS[1], 'start_by', now + within)
    redis.call('ZADD', KEYS[4], 'XX', 'LT', now + within, ARGV[1])
  end
end
redis.call('XADD', KEYS[3], '*', 'submitted', '{}')
return {1}
