"""The ledgers of model calls under test, each in a world whose clock the test moves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import count
from typing import Any

import redis

from worker.flow.base import SLICES, Ask, Granted, Ledger, Limit, Settled, Verdict
from worker.flow.memory import MemoryLedger
from worker.flow.redis import RedisLedger

KEY = "models.test/small"
MINUTE = 60_000
HOLD = 15_000
PART = MINUTE // SLICES

_SHIFT = """
local by, parts = tonumber(ARGV[1]), tonumber(ARGV[2])
for _, key in ipairs(redis.call('KEYS', '{sk:f:*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 and left <= by then
    redis.call('DEL', key)
  elseif left > by then
    redis.call('PEXPIRE', key, left - by)
  end
  local kind = string.sub(key, -2)
  if kind == ':h' or kind == ':d' then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, -by, member)
    end
  elseif kind == ':s' and redis.call('HEXISTS', key, 'closed') == 1 then
    redis.call('HINCRBY', key, 'closed', -by)
  elseif kind == ':u' then
    local use = redis.call('HGETALL', key)
    left = redis.call('PTTL', key)
    redis.call('DEL', key)
    for i = 1, #use, 2 do
      redis.call('HSET', key, use[i] - parts, use[i + 1])
    end
    if #use > 0 then redis.call('PEXPIRE', key, left) end
  end
end
"""


class LedgerWorld(ABC):
    """A ledger and its clock."""

    ledger: Ledger

    def __init__(self) -> None:
        self.moved = 0
        self._numbers = count(1)

    def ask(
        self, limit: Limit, job: str = "", *, tenant: str = "", tokens: int = 0, call: str = ""
    ) -> Verdict:
        """Ask for a call of a job; a new job, and a new call, if none is named."""
        number = next(self._numbers)
        asked = Ask(call or f"call-{number}", job or f"job-{number}", tenant, tokens)
        return self.ledger.reserve(KEY, limit, asked)

    def granted(self, limit: Limit, call: str, **more: Any) -> Granted:
        """The same, which must be granted."""
        verdict = self.ask(limit, call=call, **more)
        assert isinstance(verdict, Granted), verdict
        return verdict

    def settle(
        self, call: str, part: int = 0, *, more: int = 0, took_ms: int = 1000, close_ms: int = 0
    ) -> None:
        """A call is over."""
        self.ledger.settle(KEY, Settled(call, part, more, took_ms, close_ms))

    def advance(self, ms: int) -> None:
        """Let time pass: so many milliseconds, rounded up to whole parts of the minute."""
        ms = -(-ms // PART) * PART
        self.moved += ms
        self._move(ms)

    @abstractmethod
    def _move(self, ms: int) -> None: ...


class MemoryLedgerWorld(LedgerWorld):
    """In memory."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = MemoryLedger(
            lambda: 1_700_000_000_000 + self.moved, minute_ms=MINUTE, hold_ms=HOLD
        )

    def _move(self, ms: int) -> None:
        pass


class RedisLedgerWorld(LedgerWorld):
    """On a real server, whose past moves away."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.client: Any = redis.Redis.from_url(url, protocol=2)
        self.ledger = RedisLedger(self.client, minute_ms=MINUTE, hold_ms=HOLD)

    def _move(self, ms: int) -> None:
        self.client.eval(_SHIFT, 0, ms, ms // PART)

    def close(self) -> None:
        """Give the connections back."""
        self.client.close()
