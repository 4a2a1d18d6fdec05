-- What scripts share that move a job in or out of the inbox, or tell others of it.
--
-- KEYS  1 record … 5 prefix of the status indexes  6 live stream  7 events  8 the job's
--       announcements  9 outbox
-- ARGV  1 job id
--@include lists

-- A job without a deadline comes behind all that have one, the longest waiting first.
local NO_DEADLINE = 4e15

-- Let followers of all jobs know.
local function tell(event, agent, data)
  redis.call('XADD', KEYS[7], 'MAXLEN', '~', 10000, '*',
    'j', ARGV[1], 'e', event, 'a', agent or '', 'd', cjson.encode(data))
  redis.call('EXPIRE', KEYS[7], 604800)
end

-- Put one announcement for each channel ("webhook,task") into the outbox. The payload is JSON; a
-- packed one (see api_client/codec.py) is no text, and stands in a field of its own.
local function announce(channels, event, now, agent, payload)
  for channel in string.gmatch(channels, '[^,]+') do
    local number = redis.call('HINCRBY', KEYS[8], 'n', 1)
    local packed = string.byte(payload) == 1
    if packed then
      redis.call('HSET', KEYS[8], number .. ':payload', payload)
    end
    redis.call('HSET', KEYS[8], number, cjson.encode({
      channel = channel, event = event, at = now, agent = agent, payload = packed and '' or payload
    }))
    redis.call('ZADD', KEYS[9], now, ARGV[1] .. '/' .. number)
  end
end

-- The milliseconds until the next escalation or decision, if there is one.
local function deadline_in(timetable, from)
  for i = from, #timetable do
    if timetable[i]['do'] ~= 'remind' then
      return math.floor(timetable[i].after_s * 1000)
    end
  end
end

local function inbox_facets(agent, tenant, kind, labels)
  local facets = facets_of(agent, tenant, labels)
  facets[#facets + 1] = 'kind:' .. kind
  return facets
end

local function enter_inbox(agent, tenant, kind, labels, since, deadline)
  for _, facet in ipairs(inbox_facets(agent, tenant, kind, labels)) do
    redis.call('ZADD', KEYS[5] .. 'paused:' .. facet, since, ARGV[1])
  end
  redis.call('ZADD', KEYS[5] .. 'paused:deadline', deadline or NO_DEADLINE + since, ARGV[1])
end

local function leave_inbox()
  local job = redis.call('HMGET', KEYS[1], 'agent', 'tenant', 'pause', 'labels')
  if job[3] then
    local pause = cjson.decode(job[3])
    local labels = job[4] and cjson.decode(job[4]) or pause.labels or {}
    for _, facet in ipairs(inbox_facets(job[1], job[2], pause.kind, labels)) do
      redis.call('ZREM', KEYS[5] .. 'paused:' .. facet, ARGV[1])
    end
    redis.call('ZREM', KEYS[5] .. 'paused:deadline', ARGV[1])
  end
  redis.call('HDEL', KEYS[1], 'facets', 'kept', 'asked', 'labels')
end

-- A server sets 4 KB aside for the last node of every stream. Of a short trace that is nearly all
-- of it: stored anew it takes what it needs. A long one is left alone, so that a pause costs the
-- same at every length; so is one that this user may not restore.
local SHORT_TRACE = 64

local function slim_trace()
  if redis.call('XLEN', KEYS[3]) <= SHORT_TRACE then
    local stored = redis.pcall('DUMP', KEYS[3])
    if type(stored) == 'string' then
      redis.pcall('RESTORE', KEYS[3], 0, stored, 'REPLACE')
    end
  end
end
