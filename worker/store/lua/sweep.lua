-- Find work that is due and note that it has been hinted. Executes nothing.
-- Also takes jobs whose keys have expired out of the indexes.
--
-- KEYS  1 due index  2 prefix of the records ("…job:")  3 prefix of the status indexes
-- ARGV  1 most jobs to look at  2 time (ms) to give a hint before the next one; doubles with each
--       3 the longest such time (ms)
-- Returns {how many were looked at, {id, status, spec, …}, {id, …}}: three for each job to hint, and
-- those of them that have been hinted already and whose time has not grown to the longest, unless a
-- hint has been missed since (missed.lua). A paused one stands in the due index if its timetable asks
-- for something: it is returned as well, for its time has come. A job with a tenant that could run
-- waits for its turn instead, and is returned when that has come. Records are reached through their
-- prefix: the index names them, and they lie in the same slot.
--@include lists
--@include turns
local could_run = {queued = true, waiting = true, running = true}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local looked_at, found, again = 0, {}, {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local key = KEYS[2] .. id
  looked_at = looked_at + 1
  local job = redis.call('HMGET', key, 'status', 'lease', 'spec', 'kept', 'tenant', 'turn',
    'missed')
  local status = job[1]
  local lease = tonumber(job[2] or 0)
  if not status then
    lose(id)
  end
  if not status or status == 'paused' and not job[4] then
    redis.call('ZREM', KEYS[1], id)
  elseif lease > now then
    redis.call('ZADD', KEYS[1], lease, id)
  elseif not (job[5] and could_run[status] and waits_for_turn(id, job[6], now)) then
    local hints = redis.call('HINCRBY', key, 'hints', 1)
    local wait = math.min(ARGV[2] * 2 ^ math.min(hints - 1, 30), tonumber(ARGV[3]))
    local start_by = tonumber(redis.call('HGET', key, 'start_by') or 0)
    if start_by > now then
      wait = math.min(wait, start_by - now)
    end
    redis.call('ZADD', KEYS[1], now + wait, id)
    found[#found + 1] = id
    found[#found + 1] = status
    found[#found + 1] = job[3]
    if job[7] then
      redis.call('HDEL', key, 'missed')
    elseif status == 'queued' and hints ~= 3 and wait < tonumber(ARGV[3]) then
      -- the third is sent whatever waits: what was lost must not wait for minutes
      again[#again + 1] = id
    end
  end
end
for _, lane in ipairs(redis.call('HKEYS', turns)) do
  loosen(lane, now)
  add_hints(found, fill_window(lane, now))
  tidy(lane)
end
local published = KEYS[3] .. 'published'
for _, id in ipairs(redis.call('ZRANGEBYSCORE', published, '-inf', now, 'LIMIT', 0, 2000)) do
  forget_lists(KEYS[3], id)
end
return {looked_at, found, again}
