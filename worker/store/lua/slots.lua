-- Note which queues a worker takes messages from, with how many slots, and which agents it has.
--
-- KEYS  1 workers (hash)  2 lanes (hash)  3 caps of backlogs (hash)
-- ARGV  1 node name  2 slots  3 queues (JSON array)  4 queue of each agent (JSON object)
--       5 time (ms) after which a worker that says nothing more is forgotten
--       6 what the code of some of its agents says of their backlogs (JSON object): "SHARE CAP"
-- The lanes hold "slots:QUEUE", summed over the workers, and "agent:NAME", its queue. The caps hold
-- "own:AGENT", and keep it when no worker is there any more: that is when jobs pile up.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode({
  till = now + ARGV[5], slots = tonumber(ARGV[2]), queues = cjson.decode(ARGV[3]),
  agents = cjson.decode(ARGV[4])
}))
local found, names = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #names, 2 do
  local worker = cjson.decode(names[i + 1])
  if worker.till <= now then
    redis.call('HDEL', KEYS[1], names[i])
  else
    for _, queue in ipairs(worker.queues) do
      found['slots:' .. queue] = (found['slots:' .. queue] or 0) + worker.slots
    end
    for agent, queue in pairs(worker.agents) do
      found['agent:' .. agent] = queue
    end
  end
end
redis.call('DEL', KEYS[2])
for name, value in pairs(found) do
  redis.call('HSET', KEYS[2], name, value)
end
local own = ARGV[6] and cjson.decode(ARGV[6])
for agent in pairs(own and cjson.decode(ARGV[4]) or {}) do
  if own[agent] then
    redis.call('HSET', KEYS[3], 'own:' .. agent, own[agent])
  else
    redis.call('HDEL', KEYS[3], 'own:' .. agent)
  end
end
redis.call('EXPIRE', KEYS[1], 604800)
redis.call('EXPIRE', KEYS[2], 604800)
return 1
