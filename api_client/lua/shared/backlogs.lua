-- Whether a new job is one too many of those that wait to run.
--
-- Caps of tenants and of the whole store stand in their policies: see turns.lua. Those of agents and
-- of queues are the fields of "{sk:P}:caps": "agent:NAME" and "queue:NAME", with the name "*" for
-- each that has none of its own, and "own:AGENT", which the agent's code asks for. A value is
-- "SHARE CAP": what this partition holds of the cap, and the cap; 0 is no limit.
--
-- Which queue a job waits in is settled anew at each hint. So a queue's cap counts the jobs of the
-- agents that workers have announced for it.
--
-- KEYS  5 prefix of the status indexes; see turns.lua for the others
local caps = base .. 'caps'

local function waiting(facet)
  local found = 0
  for _, status in ipairs({'queued', 'waiting'}) do
    found = found + redis.call('ZCARD', KEYS[5] .. status .. facet)
  end
  return found
end

local function waiting_in(queue)
  local found, known = 0, redis.call('HGETALL', lanes)
  for i = 1, #known, 2 do
    local agent = known[i + 1] == queue and string.match(known[i], '^agent:(.*)$')
    found = found + (agent and waiting(':agent:' .. agent) or 0)
  end
  return found
end

-- The first of the fields that is there, as the share of this partition; 0 if none is.
local function cap_of(...)
  for _, text in ipairs(redis.call('HMGET', caps, ...)) do
    if text then
      return tonumber(string.match(text, '^%d+'))
    end
  end
  return 0
end

local function over(kind, name, present, cap)
  return present >= cap and {2, name, present, cap, kind}
end

local function over_tenant(tenant, facet)
  local _, _, cap = policy_of(tenant)
  return cap > 0 and over('tenant', tenant, waiting(facet), cap)
end

local function over_agent(agent)
  local cap = cap_of('agent:' .. agent, 'own:' .. agent, 'agent:*')
  return cap > 0 and over('agent', agent, waiting(':agent:' .. agent), cap)
end

local function over_queue(agent)
  local queue = announcement('agent:' .. agent)
  local cap = queue and cap_of('queue:' .. queue, 'queue:*') or 0
  return cap > 0 and over('queue', queue, waiting_in(queue), cap)
end

-- {2, name, present, cap, "tenant", "agent" or "queue"} of a cap that has been reached, or nothing.
local function one_too_many(agent, tenant)
  local refused = over_tenant('', '')
  if not refused and tenant ~= '' then
    refused = over_tenant(tenant, ':tenant:' .. tenant)
  end
  if not refused and redis.call('EXISTS', caps) == 1 then
    refused = over_agent(agent) or over_queue(agent)
  end
  return refused
end
