-- Make one piece of progress durable. The hot path: three keys, one round trip.
--
-- KEYS  1 record  2 transcript  3 trace
-- ARGV  1 epoch, or epoch and nonce of the claim  2 number of this commit  3 that number, a blank, the run state (JSON)  
--       4 event kind  5 event data (JSON)
--       6 "1" if the signal that was waiting is consumed by this commit
--       7 number of the last message of a person that this commit shows to the model, or ""
--       8… new messages (JSON each)
-- Returns 0 if fenced (nothing changed), else 1; 2 if a cancel is wanted, 3 if a pause is, 4 if
-- messages of people wait.
-- The same commit sent again (its reply was lost) is recognised by its number.
local job = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'status', 'cancel', 'tries',
  'halt', 'mail', 'heard', 'taken')
if job[3] ~= 'running' or (job[1] ~= ARGV[1] and job[1] .. ' ' .. (job[9] or '') ~= ARGV[1]) then
  return 0
end
local committed = 1
if job[4] then
  committed = 2
elseif job[6] then
  committed = 3
elseif job[7] and tonumber(job[7]) > math.max(tonumber(job[8] or 0), tonumber(ARGV[7]) or 0) then
  committed = 4
end
local seq = job[2] and string.match(job[2], '^%d+') or '0'
if seq == ARGV[2] then
  return committed
end
if tonumber(seq) + 1 ~= tonumber(ARGV[2]) then
  return 0
end
for i = 8, #ARGV do
  redis.call('RPUSH', KEYS[2], ARGV[i])
end
redis.call('HSET', KEYS[1], 'run', ARGV[3])
if job[5] ~= '1' then
  redis.call('HSET', KEYS[1], 'tries', 1)
end
if ARGV[6] == '1' then
  redis.call('HDEL', KEYS[1], 'signal', 'pause')
end
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[1], 'heard', ARGV[7])
  for number = tonumber(job[8] or 0) + 1, tonumber(ARGV[7]) do
    redis.call('HDEL', KEYS[1], 'mail:' .. number)
  end
end
redis.call('XADD', KEYS[3], '*', ARGV[4], ARGV[5])
return committed
