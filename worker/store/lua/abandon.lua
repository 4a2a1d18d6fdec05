-- End the leases of a dead process, so that its jobs need not wait for their expiry. What is left
-- of it cannot renew them.
--
-- KEYS  1 due index  2 prefix of the records ("…job:")  3 index of the running jobs
-- ARGV  1 owners that start with this are dead  2 except those that start with this, or ""
--       3 the one job to look at, or "" for every running one  4 delay (ms) of the next hint
-- Returns {id, spec, …} of the jobs that were freed.
--@include turns
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ids = ARGV[3] ~= '' and {ARGV[3]} or redis.call('ZRANGE', KEYS[3], 0, -1)
local function starts(text, prefix)
  return string.sub(text, 1, #prefix) == prefix
end
local freed = {}
for _, id in ipairs(ids) do
  local key = KEYS[2] .. id
  local job = redis.call('HMGET', key, 'owner', 'spec', 'tenant')
  local owner = job[1]
  if owner and starts(owner, ARGV[1]) and (ARGV[2] == '' or not starts(owner, ARGV[2])) then
    redis.call('HDEL', key, 'owner', 'nonce', 'lease')
    if job[3] then
      step_out(place_of(id))
    end
    redis.call('ZADD', KEYS[1], now + ARGV[4], id)
    freed[#freed + 1] = id
    freed[#freed + 1] = job[2]
  end
end
return freed
