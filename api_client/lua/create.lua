-- Accept a job once.
--
-- KEYS  1 record (hash)  2 transcript (list)  3 trace (stream)  4 due index (zset)
--       5 prefix of the status indexes (zsets, "…is:" .. status)
-- ARGV  1 job id  2 spec (JSON, packed if it is long: api_client/codec.py)  3 agent  4 schema version  5 retention (s)
--       6 time (ms) to give the first hint before a sweep sends another
--       7 delay (ms) before which the job must not start, 0 for none
--       8 "1" if a WAIT for replicas follows: it waits for this connection's last write, so a job
--         that is there already is written to once more, without a change
--       9 tenant, or ""  10 labels (JSON), or ""
--       11 the Celery queue that it was sent to, or ""  12 rank of its priority, or ""
--       13 "1" if limits of what may wait do not hold for it
--       14 time (ms) within which it must have begun, or ""
--       15 "1" if a message has come for it already: its claim asks whether it has its turn
-- Returns {1, "1" if it waits for its tenant's turn and is not to be hinted} if the job is new,
--         {0, spec, the same} with the stored spec if the id exists,
--         {2, name, present, cap, kind}: refused, so many jobs may wait of the tenant, or of all for
--         "", of the agent or of the queue's agents; kind is "tenant", "agent" or "queue".
--
-- Fields of the record:
--   v spec agent tenant labelled ttl created    written here, never changed
--   status since                 where the job stands, and since when (ms)
--   epoch                        fencing token
--   owner nonce lease            who holds it, for which attempt, until when (ms)
--   taken                        nonce of the last claim, also when nobody holds it any more
--   tries hints                  starts at this step, the one that runs included; hints in a row
--   missed                       the last hint came to a worker that could do nothing with it
--   run                          number of the last commit, a blank, the loop's small state (JSON)
--   pause signal answered        open pause, the signal not yet consumed, the last one that was
--   kept asked labels            of the open pause: how far its timetable has been kept, since
--                                when those who may answer have been asked, who they are since
--                                the last escalation
--   mail heard mail:N            messages of people: the last one's number, the last one that
--                                the model was shown, those that wait
--   mail_id mail_ids             the last one's id, and those of the ones before it (JSON list)
--   halt                         a person wants the job paused: who and why (JSON)
--   due_at outcome published
--   start_by                     a job that nobody has begun then (ms) is cancelled by its next claim
--   awaits woken                 it waits for sub-jobs; one of them ended while it was running
--   queue rank turn lane         of a job with a tenant: see shared/turns.lua
--   cancel                       the outcome (JSON) that the job is to have by order of a caller
--@include lists
--@include turns
--@include backlogs
local function held(turn)
  return turn == 'ready' and 1 or 0
end

local stored = redis.call('HMGET', KEYS[1], 'spec', 'turn')
if stored[1] then
  if ARGV[8] == '1' then
    redis.call('HINCRBY', KEYS[1], 'epoch', 0)
  end
  return {0, stored[1], held(stored[2])}
end

if ARGV[13] ~= '1' then
  local refused = one_too_many(ARGV[3], ARGV[9])
  if refused then
    return refused
  end
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
note_tenant(ARGV[9], ARGV[11], ARGV[12])
if ARGV[10] ~= '' then
  redis.call('HSET', KEYS[1], 'labelled', ARGV[10])
end
local within = tonumber(ARGV[14] or '')
local start_by = within and now + within
if start_by then
  redis.call('HSET', KEYS[1], 'start_by', start_by)
end
local job = ARGV[7] == '0' and ARGV[9] ~= '' and ARGV[15] ~= '1' and place_of(ARGV[1])
if job then
  list_in('queued', now)
  line_up(job)
  fill_window(job.lane, now, ARGV[1])
elseif ARGV[7] == '0' then
  redis.call('ZADD', KEYS[4], now + ARGV[6], ARGV[1])
  list_in('queued', now)
else
  redis.call('HSET', KEYS[1], 'status', 'waiting', 'due_at', now + ARGV[7])
  redis.call('ZADD', KEYS[4], now + ARGV[7], ARGV[1])
  list_in('waiting', now)
end
if start_by then
  redis.call('ZADD', KEYS[4], 'XX', 'LT', start_by, ARGV[1])
end
redis.call('XADD', KEYS[3], '*', 'submitted', '{}')
return {1, job and held(redis.call('HGET', KEYS[1], 'turn')) or 0}
