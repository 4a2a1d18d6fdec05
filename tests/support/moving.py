"""Moving time on a Redis whose clock nobody can set.

Moving on by a day means to put everything that is stored a day further into the past.
"""

from __future__ import annotations

from typing import Any

_SHIFT = """
local by = tonumber(ARGV[1])
for _, key in ipairs(redis.call('KEYS', '{sk:*')) do
  local left = redis.call('PTTL', key)
  if left > by then
    redis.call('PEXPIRE', key, left - by)
  elseif left >= 0 then
    redis.call('DEL', key)
  end
  local kind = redis.call('TYPE', key).ok
  local no_time = string.match(key, ':tags:') or string.match(key, ':fair:')
  if kind == 'zset' and not no_time then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, -by, member)
    end
  elseif kind == 'hash' then
    for _, name in ipairs({'lease', 'due_at', 'start_by', 'since', 'created', 'asked'}) do
      if redis.call('HEXISTS', key, name) == 1 then
        redis.call('HINCRBY', key, name, -by)
      end
    end
  end
end
"""


def move_time(client: Any, ms: int) -> None:
    """Let so many milliseconds pass for everything that Stepkeeper has stored."""
    client.eval(_SHIFT, 0, ms)
