-- Say what a tenant may have; it holds from the next turn on.
--
-- KEYS  1 policies (hash)
-- ARGV  1 tenant, "*" for each that has no policy of its own, or "" for the whole store
--       2 "WEIGHT CONCURRENCY BACKLOG …" of this partition, 0 for no limit; "" to forget it
--@include turns
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
if ARGV[1] ~= '*' then
  unpark(ARGV[1])
  return 1
end
for _, name in ipairs(redis.call('HKEYS', counts)) do
  local tenant = string.match(name, '^ready:(.*)$')
  if tenant then
    unpark(tenant)
  end
end
return 1
