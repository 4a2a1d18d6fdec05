-- Note how many bytes a job takes of its tenant's quota.
--
-- KEYS  1 bytes and tenant by job (hash)  2 sums by tenant (hash)
-- ARGV  1 job id  2 bytes  3 tenant
-- Returns the tenant's sum. ``forget_lists`` (shared/lists.lua) takes a forgotten job out again.
local before = redis.call('HGET', KEYS[1], ARGV[1])
local bytes = before and tonumber(string.match(before, '^%d+')) or 0
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return redis.call('HINCRBY', KEYS[2], ARGV[3], ARGV[2] - bytes)
