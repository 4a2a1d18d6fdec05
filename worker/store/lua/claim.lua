-- Take the right to advance a job, or to publish its outcome.
--
-- KEYS  see shared/desk.lua
-- ARGV  1 job id  2 owner ("node/boot/pid")  3 nonce of this attempt  4 lease (ms)
--       5 starts without progress after which the job is poison  6 its outcome then (JSON)
--       7 highest schema version that the worker reads
--       8 starts without progress after which the job is left alone for now, 0 for never
--       9 names of the keys that the worker has, comma separated (api_client/sealing.py)
--       10 nonce and epoch of the claim, number of the commit and of the messages, at which the worker
--       knows them; or ""
--       11 names of the agents that the worker has, comma separated; none given: it has them all
--       12 the trace record of a job that is poison (JSON)  13 the outcome (JSON) of one that nobody
--       has begun in time  14 "1" if a job whose spec is not encrypted is left alone
-- Returns {"missing"} | {"ended"} | {"paused"} | {"not_due", due} | {"busy", owner}
--       | {"newer", schema version}: left for a newer worker, untouched
--       | {"locked", name of a key}: encrypted with a key that the worker does not have, untouched;
--         "" for one that is not encrypted, and should be
--       | {"unknown", agent}: left for a worker that has the agent; counts as no start
--       | {"suspect", starts}: left for a process that runs no other such job
--       | {"turn", "", jobs to hint}: it is another tenant's turn; this job will be hinted again
--       | {"run", record (flat list), messages, status before, ms for which it could be claimed,
--         jobs to hint, 1 if other tenants wait for this one's slot, 1 if the worker knows the
--         messages: then none are returned}
--       | {"publish", record (flat list), jobs to hint}
-- Jobs to hint: {job id, status, spec, …}, whose turn has come by this.
-- A job that a caller has cancelled ends here; it must not run on until its next commit. So does one
-- that was to begin by a certain time, and that nobody has begun.
-- A claim whose reply was lost may be sent again with its nonce: it finds itself the owner.
--@include desk
--@include turns
local job = redis.call('HMGET', KEYS[1], 'status', 'lease', 'nonce', 'owner', 'published',
  'due_at', 'cancel', 'since', 'agent', 'v', 'tries', 'tenant', 'spec')
local status = job[1]
if not status then
  return {'missing'}
end
if tonumber(job[10]) > tonumber(ARGV[7]) then
  return {'newer', job[10]}
end
if status == 'paused' then
  return {'paused'}
end
local spec = job[13]
if spec and string.sub(spec, 1, 2) == '\1k' then
  local key = string.gsub(string.sub(spec, 3, 6), '.', function(letter)
    return string.format('%02x', string.byte(letter))
  end)
  if not string.find(ARGV[9] or '', key, 1, true) then
    return {'locked', key}
  end
elseif ARGV[14] == '1' then
  return {'locked', ''}
end
local ended = status == 'succeeded' or status == 'failed' or status == 'cancelled'
if ended and job[5] then
  return {'ended'}
end
local mine = job[3] == ARGV[3]
local known = false
if ARGV[10] and ARGV[10] ~= '' then
  local now = redis.call('HMGET', KEYS[1], 'taken', 'epoch', 'run')
  local seq = now[3] and string.match(now[3], '^%d+') or '0'
  known = ARGV[10] == table.concat({now[1] or '', now[2], seq, redis.call('LLEN', KEYS[2])}, ' ')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function expired()
  local job = redis.call('HMGET', KEYS[1], 'start_by', 'epoch')
  return job[1] and job[2] == '0' and tonumber(job[1]) <= now
end

local function enter(new)
  redis.call('HSET', KEYS[1], 'status', new, 'since', now)
  list_out(status)
  list_in(new, now)
end

local function finish(new, outcome, data, told)
  enter(new)
  redis.call('HSET', KEYS[1], 'outcome', outcome)
  redis.call('HDEL', KEYS[1], 'pause', 'signal', 'due_at')
  redis.call('XADD', KEYS[3], '*', new, data)
  tell(new, job[9], told)
  ended = true
end

local function start()
  local tries = redis.call('HINCRBY', KEYS[1], 'tries', 1)
  if tries > tonumber(ARGV[5]) then
    redis.call('ZADD', KEYS[5] .. 'poison', now, ARGV[1])
    return finish('failed', ARGV[6], ARGV[12], {reason = 'poison'})
  end
  if status ~= 'running' then
    enter('running')
  end
  redis.call('HDEL', KEYS[1], 'due_at', 'awaits', 'woken')
  redis.call('XADD', KEYS[3], '*', 'claimed',
    cjson.encode({worker = ARGV[2], tries = tries, was = status}))
end

local function is_known()
  local agents = ARGV[11] or ''
  return agents == '' or string.find(',' .. agents .. ',', ',' .. job[9] .. ',', 1, true)
end

local place, hints = job[12] and not mine and place_of(ARGV[1]), {}

if not mine then
  if tonumber(job[2] or 0) > now then
    return {'busy', job[4]}
  end
  if not ended and not job[7] and expired() then
    job[7] = ARGV[13]
  elseif status == 'waiting' and tonumber(job[6] or 0) > now then
    return {'not_due', job[6]}
  end
  if not ended and not job[7] and not is_known() then
    if place and place.turn == 'hinted' then
      step_out(place)  -- it keeps no other job from its turn
    end
    return {'unknown', job[9]}
  end
  local wary, tries = tonumber(ARGV[8]), tonumber(job[11])
  if not ended and not job[7] and wary > 0 and tries >= wary and tries < tonumber(ARGV[5]) then
    redis.call('HSET', KEYS[1], 'hints', 0)
    if place and place.turn == 'hinted' then
      step_out(place)  -- whoever may run it is hinted when it is due
    end
    return {'suspect', job[11]}
  end
  if place and not ended and not job[7] then
    local its_turn
    its_turn, hints = has_turn(place, now)
    if not its_turn then
      return {'turn', '', hints}
    end
  end
  redis.call('HINCRBY', KEYS[1], 'epoch', 1)
  -- from here on it is written in this worker's shapes, which an older one cannot read
  redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'nonce', ARGV[3], 'taken', ARGV[3],
    'lease', now + ARGV[4], 'hints', 0, 'v', math.max(job[10], ARGV[7]))
  redis.call('ZADD', KEYS[4], now + ARGV[4], ARGV[1])
  if not ended and job[7] then
    finish('cancelled', job[7], '{}', {})
  elseif not ended then
    start()
  end
  if place and ended then
    step_out(place)
  elseif place then
    take_turn(place)
    add_hints(hints, fill_window(place.lane, now))
  end
end
if ended then
  return {'publish', redis.call('HGETALL', KEYS[1]), hints}
end
-- it could be claimed since it became due, or since it entered the queue
local since = (status == 'waiting' and job[6]) or (status ~= 'running' and job[8]) or now
local was, waited = status, math.max(0, now - tonumber(since))
if mine then
  was, waited = '', 0
end
return {'run', redis.call('HGETALL', KEYS[1]),
  known and {} or redis.call('LRANGE', KEYS[2], 0, -1), was, waited,
  hints, place and others_wait(place.lane, place.tenant) and 1 or 0, known and 1 or 0}
