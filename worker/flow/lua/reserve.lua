-- Ask for one model call: granted as far as the limits allow, else a place in the queue.
--
-- KEYS  1 use (hash: part of the minute -> "requests tokens")  2 calls in flight (zset by expiry)
--       3 queue (zset: job -> turn)  4 when each of it asks again (zset: job -> ms)
--       5 tokens that each of it wants (hash)  6 state (hash: turn closed hold waits too_large)
--       7 turns given to each tenant that waits (hash)
-- ARGV  1 call  2 job  3 tenant  4 tokens  5 requests a minute  6 tokens a minute
--       7 calls in flight (0 each: no limit)  8 the minute (ms)  9 parts of it
--       10 time (ms) after which a call that is not renewed is over
--       11 soon (ms)  12 late (ms)  13 kept (ms): see worker/flow/base.py  14 looked at
-- Returns {1, part} granted | {0, wait (ms), others before it, 1 if the provider closed the key}
--       | {2} it takes more tokens than a minute allows
-- The same call asked again (its reply was lost) is granted once.
--
-- Use is counted in parts of the minute. A part is forgotten when all of it is more than a minute
-- old, so that in no minute, wherever it begins, more is granted than the limit.
-- Turns are virtual time (start-time fair queueing): a job's turn is one behind the last of its
-- tenant, and not before the turn that was served last. So tenants alternate.
local call, job, tenant, tokens = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local rpm, tpm, places = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local minute, parts = tonumber(ARGV[8]), tonumber(ARGV[9])
local soon, late, kept = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local width = minute / parts
local part = math.floor(now / width)
local HOUR = 3600000

if tpm > 0 and tokens > tpm then
  local largest = tonumber(redis.call('HGET', KEYS[6], 'too_large') or 0)
  redis.call('HSET', KEYS[6], 'too_large', math.max(largest, tokens))
  redis.call('PEXPIRE', KEYS[6], 24 * HOUR)
  return {2}
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZSCORE', KEYS[2], call) then
  return {1, part}
end

-- what the last minute has used
local used, requests, spent, mine = {}, 0, 0, {0, 0}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local number = tonumber(flat[i])
  if number < part - parts then
    redis.call('HDEL', KEYS[1], flat[i])
  else
    local r, t = string.match(flat[i + 1], '^(%d+) (%d+)$')
    used[#used + 1] = {number, tonumber(r), tonumber(t)}
    requests, spent = requests + r, spent + t
    if number == part then mine = {tonumber(r), tonumber(t)} end
  end
end
local flying = redis.call('ZCARD', KEYS[2])
local state = redis.call('HMGET', KEYS[6], 'turn', 'closed', 'hold')
local served, closed = tonumber(state[1] or 0), tonumber(state[2] or 0)
local hold = tonumber(state[3] or 1000)

-- who waits: those who did not come back in time lose their places
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now - kept, 'LIMIT', 0, 100)) do
  redis.call('ZREM', KEYS[3], gone)
  redis.call('ZREM', KEYS[4], gone)
  redis.call('HDEL', KEYS[5], gone)
end
local waiting = redis.call('ZCARD', KEYS[3])
local turn = tonumber(redis.call('ZSCORE', KEYS[3], job) or nil)  -- nil: it does not wait yet
local queued, before = turn ~= nil, 0
if queued then
  before = redis.call('ZRANK', KEYS[3], job)
else
  turn = math.max(served, tonumber(waiting > 0 and redis.call('HGET', KEYS[7], tenant) or 0)) + 1
  before = waiting > 0 and redis.call('ZCOUNT', KEYS[3], '-inf', turn) or 0
end

-- those before it: the ones who are here, or will be at any moment, are left their share
local expected, expected_tokens, seen_tokens, seen = 0, 0, 0, 0
if before > 0 then
  local first = redis.call('ZRANGE', KEYS[3], 0, math.min(before, tonumber(ARGV[14])) - 1)
  local dues = redis.call('ZMSCORE', KEYS[4], unpack(first))
  local wants = redis.call('HMGET', KEYS[5], unpack(first))
  seen = #first
  for i = 1, seen do
    local due, want = tonumber(dues[i] or 0), tonumber(wants[i] or 0)
    seen_tokens = seen_tokens + want
    if due > now - late and due <= now + soon then
      expected, expected_tokens = expected + 1, expected_tokens + want
    end
  end
end
local free = rpm > 0 and rpm - requests or math.huge
local free_tokens = tpm > 0 and tpm - spent or math.huge
local free_places = places > 0 and places - flying or math.huge

if closed <= now and expected < free and expected < free_places
  and expected_tokens + tokens <= free_tokens then
  redis.call('HSET', KEYS[1], part, (mine[1] + 1) .. ' ' .. (mine[2] + tokens))
  redis.call('PEXPIRE', KEYS[1], math.ceil(minute + 2 * width))
  redis.call('ZADD', KEYS[2], now + ARGV[10], call)
  redis.call('PEXPIRE', KEYS[2], ARGV[10])
  if queued then
    redis.call('ZREM', KEYS[3], job)
    redis.call('ZREM', KEYS[4], job)
    redis.call('HDEL', KEYS[5], job)
    waiting = waiting - 1
  end
  if waiting == 0 then
    redis.call('DEL', KEYS[7])
    redis.call('HDEL', KEYS[6], 'turn')
  else
    local head = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
    redis.call('HSET', KEYS[6], 'turn', math.max(served, math.min(turn, tonumber(head[2]))))
    if not queued then redis.call('HSET', KEYS[7], tenant, turn) end
  end
  return {1, part}
end

-- when its turn will probably have come, a moment of its own for each that waits
table.sort(used, function(a, b) return a[1] < b[1] end)
local function frees(need, which, limit, own)
  if need <= 0 then return 0 end
  local left, at, first = need, nil, nil
  for _, entry in ipairs(used) do
    local gone = (entry[1] + parts + 1) * width - now
    if entry[which] > 0 then
      first = first or gone
      left = left - entry[which]
      if left <= 0 then
        at = gone
        break
      end
    end
  end
  first = first or 0
  at = at or first + minute + left * minute / limit
  return math.max(at, first + math.max(0, need - own) * minute / limit)
end
local position = before + 1
local wanted = seen_tokens + (seen > 0 and (before - seen) * seen_tokens / seen or 0) + tokens
local pace = math.max(rpm > 0 and minute / rpm or 0, places > 0 and hold / places or 0, 20)
local wait = 50 * math.min(expected, 20)
if closed > now then wait = math.max(wait, closed - now + before * pace) end
if rpm > 0 then wait = math.max(wait, frees(position - free, 2, rpm, 1)) end
if tpm > 0 then wait = math.max(wait, frees(wanted - free_tokens, 3, tpm, tokens)) end
if position > free_places then wait = math.max(wait, (position - free_places) * hold / places) end
wait = math.ceil(math.max(wait, 20))

if not queued then
  redis.call('ZADD', KEYS[3], turn, job)
  redis.call('HSET', KEYS[7], tenant, turn)
end
redis.call('ZADD', KEYS[4], now + wait, job)
redis.call('HSET', KEYS[5], job, tokens)
redis.call('HINCRBY', KEYS[6], 'waits', 1)
for i = 3, 7 do
  if redis.call('PTTL', KEYS[i]) < wait + HOUR then
    redis.call('PEXPIRE', KEYS[i], wait + 24 * HOUR)
  end
end
return {0, wait, before, closed > now and 1 or 0}
