-- A job's place in the lists: that of its status, and within it those of its facets: its agent, its
-- tenant, and each of its labels ("label:" if it has none). Paused jobs stand by their facets in
-- the inbox (desk.lua), which goes by the labels of the pause.
--
-- KEYS  1 record … 5 prefix of the status indexes
-- ARGV  1 job id

local function facets_of(agent, tenant, labels)
  local facets = {'agent:' .. agent, 'tenant:' .. (tenant or '')}
  for _, label in ipairs(labels) do
    facets[#facets + 1] = 'label:' .. label
  end
  if #labels == 0 then
    facets[#facets + 1] = 'label:'
  end
  return facets
end

-- The names of the lists of one status in which the job stands, without their prefix.
local function lists_of(status)
  local names = {status}
  if status ~= 'paused' then
    local job = redis.call('HMGET', KEYS[1], 'agent', 'tenant', 'labelled')
    local labels = job[3] and cjson.decode(job[3]) or {}
    for _, facet in ipairs(facets_of(job[1], job[2], labels)) do
      names[#names + 1] = status .. ':' .. facet
    end
  end
  return names
end

local function list_in(status, since)
  for _, name in ipairs(lists_of(status)) do
    redis.call('ZADD', KEYS[5] .. name, since, ARGV[1])
  end
end

local function list_out(status)
  for _, name in ipairs(lists_of(status)) do
    redis.call('ZREM', KEYS[5] .. name, ARGV[1])
  end
end

-- Note the lists of a job that will expire: its record will not be there to tell.
local function remember_lists(status)
  redis.call('HSET', KEYS[5] .. 'lists', ARGV[1], cjson.encode(lists_of(status)))
end

-- Take an ended job out of all lists, also one whose record has expired.
local function forget_lists(prefix, id)
  local names = redis.call('HGET', prefix .. 'lists', id)
  for _, name in ipairs(names and cjson.decode(names) or {}) do
    redis.call('ZREM', prefix .. name, id)
  end
  redis.call('HDEL', prefix .. 'lists', id)
  local held = redis.call('HGET', prefix .. 'held', id)
  if held then
    local bytes, tenant = string.match(held, '^(%d+) (.*)$')
    redis.call('HDEL', prefix .. 'held', id)
    if redis.call('HINCRBY', prefix .. 'held:tenants', tenant, -bytes) <= 0 then
      redis.call('HDEL', prefix .. 'held:tenants', tenant)
    end
  end
  for _, name in ipairs({'succeeded', 'failed', 'cancelled', 'poison', 'published'}) do
    redis.call('ZREM', prefix .. name, id)
  end
end
