-- Whose turn it is: jobs that name a tenant take turns for a few places in the broker's queue.
--
-- A lane is a Celery queue, or "agent:NAME" while no worker has announced the job's agent. Its
-- window holds the jobs that are hinted and that no worker has claimed yet: at most one more than
-- the square root of its slots, which keeps them busy (each claim lets the next one in) and lets
-- whoever comes anew wait for a small part of a slice. All other jobs that could run wait here, one list a tenant, by priority and
-- age. A place goes to the tenant with the least tag: the steps it has had over its weight. A tenant
-- that comes to wait begins at the lane's own time, so that nobody saves up (start-time fair
-- queueing). A place costs one step in advance; the end of the slice says how many it were.
--
-- KEYS  1 … begin with the partition's prefix, "{sk:0}:"; all that is built here lies in its slot
--
-- Fields of the record, of jobs with a tenant only:
--   queue rank    the queue it was sent to, if it was; 0, 3 or 6 for high, normal, low priority
--   turn lane     "ready": waits in the list of its tenant; "hinted": stands in the window;
--                 "running"; "loose": was hinted and not claimed in time, and is hinted on as a job
--                 without a tenant is. Nothing: it stands in the due index, paused or not due yet,
--                 or with a hint under way that nobody was asked for.
local base = string.match(KEYS[1], '^{sk:%d+}:')
local counts, policies, lanes = base .. 'counts', base .. 'tenants', base .. 'lanes'
local turns, due_jobs = base .. 'turns', base .. 'due'

-- Time (ms) to give a hint before a sweep sends another; a hint that nobody takes up while slots
-- are idle leaves the window after the second time.
local HINT_MS, UNCLAIMED_MS = 5000, 30000

-- Most jobs that one script moves from a lane because a worker has told of their agent, or no
-- worker tells of it any more.
local MOST_MOVED = 500

local function count(name, by)
  if redis.call('HINCRBY', counts, name, by) <= 0 then
    redis.call('HDEL', counts, name)
  end
end

local function counted(name)
  return tonumber(redis.call('HGET', counts, name) or 0)
end

local function count_hinted(lane, tenant, by)
  count('hinted:' .. tenant, by)
  count('window:' .. #lane .. ':' .. lane .. ':' .. tenant, by)
end

-- Whether jobs of tenants other than this one stand in the lane's window.
local function others_are_hinted(lane, tenant)
  return redis.call('ZCARD', base .. 'hinted:' .. lane)
    > counted('window:' .. #lane .. ':' .. lane .. ':' .. tenant)
end

local function ready_list(lane, tenant)
  return base .. 'ready:' .. #lane .. ':' .. lane .. ':' .. tenant
end

-- What no script of jobs changes is read once in each.
local known = {}

-- Weight, most jobs at once, most jobs that may wait; 0 is no limit.
local function policy_of(tenant)
  local text = known[tenant]
  if not text then
    local found = redis.call('HMGET', policies, tenant, '*')
    text = found[1] or found[2] or '1 0 0'
    known[tenant] = text
  end
  local weight, concurrency, backlog = string.match(text, '^(%S+) (%d+) (%d+)')
  return tonumber(weight), tonumber(concurrency), tonumber(backlog)
end

-- What workers have announced: "agent:NAME", its queue; "slots:QUEUE", how many it has.
local announced = {}

local function announcement(name)
  if announced[name] == nil then
    announced[name] = redis.call('HGET', lanes, name)
  end
  return announced[name]
end

local function at_its_limit(tenant, concurrency)
  if concurrency == 0 then
    return false
  end
  local now = redis.call('HMGET', counts, 'hinted:' .. tenant, 'running:' .. tenant)
  return tonumber(now[1] or 0) + tonumber(now[2] or 0) >= concurrency
end

-- What is known of a job's turn; nothing for one without a tenant.
local function place_of(id)
  local job = redis.call('HMGET', base .. 'j:' .. id, 'tenant', 'turn', 'lane', 'agent', 'queue',
    'rank', 'created', 'status', 'start_by', 'epoch')
  if job[1] then
    return {id = id, tenant = job[1], turn = job[2], lane = job[3], agent = job[4],
      queue = job[5], rank = job[6], created = job[7], status = job[8],
      start_by = job[10] == '0' and tonumber(job[9])}
  end
end

-- The tenant waits in the lane, from the lane's own time on if it comes anew.
local function join_line(lane, tenant)
  local now = redis.call('HGET', turns, lane)
  local tag = redis.call('ZSCORE', base .. 'tags:' .. lane, tenant)
  if not now then
    now = '0'
    redis.call('HSET', turns, lane, now)
  end
  if not tag or tonumber(tag) < tonumber(now) then
    tag = now
    redis.call('ZADD', base .. 'tags:' .. lane, tag, tenant)
  end
  redis.call('ZADD', base .. 'fair:' .. lane, tag, tenant)
end

-- Let a tenant wait again where its limit had kept it out.
local function unpark(tenant)
  local parked = base .. 'parked:' .. tenant
  local found = redis.call('SMEMBERS', parked)
  for _, lane in ipairs(found) do
    join_line(lane, tenant)
  end
  if found[1] then
    redis.call('DEL', parked)
  end
end

local function charge(lane, tenant, steps)
  local tag = redis.call('ZINCRBY', base .. 'tags:' .. lane, steps / policy_of(tenant), tenant)
  redis.call('ZADD', base .. 'fair:' .. lane, 'XX', tag, tenant)
end

-- The lane to which a job belongs, by what workers have announced.
local function lane_of(job)
  local own = announcement('agent:' .. job.agent)
  return own and (job.queue or own) or 'agent:' .. job.agent
end

local function set_turn(job, turn, lane)
  redis.call('HSET', base .. 'j:' .. job.id, 'turn', turn, 'lane', lane)
  job.turn, job.lane = turn, lane
end

-- Give up the place that a job has, whichever it is.
local function step_out(job)
  local turn, tenant, lane = job.turn, job.tenant, job.lane
  if turn == 'ready' then
    local list = ready_list(lane, tenant)
    redis.call('ZREM', list, job.id)
    count('ready:' .. tenant, -1)
    count('line:' .. lane, -1)
    if redis.call('EXISTS', list) == 0 then
      redis.call('ZREM', base .. 'fair:' .. lane, tenant)
      redis.call('SREM', base .. 'parked:' .. tenant, lane)
    end
  elseif turn == 'hinted' then
    redis.call('ZREM', base .. 'hinted:' .. lane, job.id)
    count_hinted(lane, tenant, -1)
    charge(lane, tenant, -1)
    unpark(tenant)
  elseif turn == 'running' then
    count('running:' .. tenant, -1)
    count('busy:' .. lane, -1)
    unpark(tenant)
  end
  redis.call('HDEL', base .. 'j:' .. job.id, 'turn', 'lane')
  job.turn = false
end

-- Let a job that could run wait for its turn.
local function line_up(job)
  local lane = lane_of(job)
  set_turn(job, 'ready', lane)
  local rank = (tonumber(job.rank) or 3) * 1e13 + tonumber(job.created)
  redis.call('ZADD', ready_list(lane, job.tenant), rank, job.id)
  count('ready:' .. job.tenant, 1)
  count('line:' .. lane, 1)
  if not redis.call('ZSCORE', base .. 'fair:' .. lane, job.tenant) then
    join_line(lane, job.tenant)
  end
  if job.start_by then
    redis.call('ZADD', due_jobs, job.start_by, job.id)
  else
    redis.call('ZREM', due_jobs, job.id)
  end
end

local function into_window(job, lane, tag, now)
  step_out(job)
  if tonumber(tag) > tonumber(redis.call('HGET', turns, lane) or 0) then
    redis.call('HSET', turns, lane, tag)
  end
  charge(lane, job.tenant, 1)
  redis.call('ZADD', base .. 'hinted:' .. lane, now, job.id)
  count_hinted(lane, job.tenant, 1)
  set_turn(job, 'hinted', lane)
  redis.call('HSET', base .. 'j:' .. job.id, 'hints', 0)
  local due = now + HINT_MS
  if job.start_by and job.start_by > now then
    due = math.min(due, job.start_by)
  end
  redis.call('ZADD', due_jobs, due, job.id)
end

-- The next job of a tenant in a lane: in its window, or moved to where it belongs.
local function next_of(lane, tenant, tag, now, only)
  local id = redis.call('ZRANGE', ready_list(lane, tenant), 0, 0)[1]
  if only and id ~= only then
    return false, true
  end
  local job = place_of(id)
  if not job then  -- its record was lost
    step_out({id = id, tenant = tenant, lane = lane, turn = 'ready'})
  elseif lane_of(job) ~= lane then
    step_out(job)
    line_up(job)
  else
    into_window(job, lane, tag, now)
    return job
  end
end

-- Fill the lane's window. Returns {job id, status, spec, …} of those that are to be hinted.
-- With ``only``, nobody's turn comes but that job's.
local function fill_window(lane, now, only)
  local found, moved = {}, 0
  local room = 1 + math.ceil(math.sqrt(tonumber(announcement('slots:' .. lane) or 1)))
    - redis.call('ZCARD', base .. 'hinted:' .. lane)
  while room > 0 and moved < MOST_MOVED do
    local first = redis.call('ZRANGE', base .. 'fair:' .. lane, 0, 0, 'WITHSCORES')
    local tenant = first[1]
    if not tenant then
      break
    end
    local _, concurrency = policy_of(tenant)
    if at_its_limit(tenant, concurrency) then
      redis.call('ZREM', base .. 'fair:' .. lane, tenant)
      redis.call('SADD', base .. 'parked:' .. tenant, lane)
    else
      local job, other = next_of(lane, tenant, first[2], now, only)
      if other then
        break
      elseif job then
        found[#found + 1] = job.id
        found[#found + 1] = job.status
        found[#found + 1] = redis.call('HGET', base .. 'j:' .. job.id, 'spec')
        room = room - 1
      else
        moved = moved + 1
      end
    end
  end
  return found
end

local function add_hints(all, more)
  for _, item in ipairs(more) do
    all[#all + 1] = item
  end
end

-- Whether no other tenant waits in the lane or is hinted there, and this one may start a job.
local function alone(lane, tenant)
  local fair = base .. 'fair:' .. lane
  local waiting, own = redis.call('ZCARD', fair), redis.call('ZSCORE', fair, tenant)
  local _, concurrency = policy_of(tenant)
  return waiting == (own and 1 or 0)
    and not others_are_hinted(lane, tenant)
    and not at_its_limit(tenant, concurrency)
end

-- A message has come for a job: whether it may run now, and which jobs are to be hinted. One that is
-- not in the window, such as a bare message, waits for its turn if other tenants wait as well.
local function has_turn(job, now)
  if job.turn == 'hinted' then
    return true, {}
  end
  if job.turn ~= 'ready' then
    step_out(job)
    line_up(job)
  end
  if alone(job.lane, job.tenant) then
    return true, {}
  end
  return false, fill_window(job.lane, now)
end

-- The job runs from now on.
local function take_turn(job)
  local tenant, lane = job.tenant, job.lane
  if job.turn == 'hinted' then
    redis.call('ZREM', base .. 'hinted:' .. lane, job.id)
    count_hinted(lane, tenant, -1)
  else
    step_out(job)
    charge(lane, tenant, 1)
  end
  count('running:' .. tenant, 1)
  count('busy:' .. lane, 1)
  set_turn(job, 'running', lane)
end

-- The runner of a job that was taken for dead has renewed its lease: the job runs after all.
local function retake_turn(job)
  step_out(job)
  line_up(job)
  take_turn(job)
end

-- A slice is over: what it has used, beside the one step that was paid in advance.
local function charge_slice(job, steps, now)
  if job.turn then
    charge(job.lane, job.tenant, job.turn == 'running' and steps - 1 or steps)
  end
  if steps > 0 then
    local used = base .. 'used:' .. math.floor(now / 86400000)
    redis.call('HINCRBY', used, job.tenant, steps)
    redis.call('EXPIRE', used, 172800)
  end
end

-- Whether tenants other than this one wait in the lane: for their turn, or in the window for a slot.
local function others_wait(lane, tenant)
  local fair = base .. 'fair:' .. lane
  local waiting = redis.call('ZCARD', fair)
  if waiting > 1 or waiting == 1 and not redis.call('ZSCORE', fair, tenant) then
    return true
  end
  return others_are_hinted(lane, tenant)
    and counted('busy:' .. lane) >= tonumber(announcement('slots:' .. lane) or 0)
end

-- What the record of a new job says of its turn; KEYS[1] is the record.
local function note_tenant(tenant, queue, rank)
  if (tenant or '') == '' then
    return
  end
  redis.call('HSET', KEYS[1], 'tenant', tenant)
  if (queue or '') ~= '' then
    redis.call('HSET', KEYS[1], 'queue', queue)
  end
  if (rank or '') ~= '' then
    redis.call('HSET', KEYS[1], 'rank', rank)
  end
end

-- A record has been lost: its place in a window is free.
local function lose(id)
  for _, lane in ipairs(redis.call('HKEYS', turns)) do
    redis.call('ZREM', base .. 'hinted:' .. lane, id)
  end
end

-- Slots are idle and others wait: what nobody has claimed for long leaves the window.
local function loosen(lane, now)
  local busy, slots = counted('busy:' .. lane), announcement('slots:' .. lane)
  if counted('line:' .. lane) == 0 or busy >= tonumber(slots or 0) then
    return
  end
  local window = base .. 'hinted:' .. lane
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', window, '-inf', now - UNCLAIMED_MS)) do
    local job = place_of(id)
    if job then
      step_out(job)
      set_turn(job, 'loose', lane)
    end
  end
end

-- Forget what makes no difference any more: tenants that are gone and not ahead of their time, or
-- the whole lane.
local function tidy(lane)
  local tags = base .. 'tags:' .. lane
  if counted('line:' .. lane) + counted('busy:' .. lane) == 0
    and redis.call('EXISTS', base .. 'hinted:' .. lane) == 0 then
    redis.call('DEL', tags)
    redis.call('HDEL', turns, lane)
    return
  end
  local time = redis.call('HGET', turns, lane)
  for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', tags, '-inf', time, 'LIMIT', 0, 100)) do
    local here = redis.call('HMGET', counts, 'ready:' .. tenant, 'hinted:' .. tenant,
      'running:' .. tenant)
    if not here[1] and not here[2] and not here[3] then
      redis.call('ZREM', tags, tenant)
    end
  end
end

-- A job is due: unless it is in the window, or its claim is to end it, it waits for its turn.
local function waits_for_turn(id, turn, now)
  if turn == 'hinted' or turn == 'loose' then
    return false
  end
  local job = place_of(id)
  local lane = job.lane or ''
  step_out(job)
  if job.start_by and job.start_by <= now then
    set_turn(job, 'loose', lane)
    return false
  end
  line_up(job)
  return true
end
