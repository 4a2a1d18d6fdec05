"""The ledger in memory: the same promises as on Redis, for tests and simulations."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from worker.flow.base import (
    KEPT_MS,
    LATE_MS,
    LOOKED_AT,
    SLICES,
    SOON_MS,
    Ask,
    Granted,
    Limit,
    Settled,
    TooLarge,
    Use,
    Verdict,
    Wait,
)

INF = math.inf


@dataclass(slots=True)
class _Place:
    """A job in the queue: its turn, when it asks again, what it wants."""

    job: str
    turn: int
    due: float
    tokens: int


@dataclass(slots=True)
class _Key:
    """One model key; the names are those of ``reserve.lua``."""

    used: dict[int, list[int]] = field(default_factory=dict)
    flying: dict[str, float] = field(default_factory=dict)
    queue: dict[str, _Place] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    served: int = 0
    closed: float = 0
    hold: float = 1000
    settled: bool = False
    waits: int = 0
    too_large: int = 0

    def order(self) -> list[_Place]:
        return sorted(self.queue.values(), key=lambda place: (place.turn, place.job))


class MemoryLedger:
    """``Ledger`` in a dict, behind one lock.

    Args:
        clock: milliseconds since any moment; tests pass one that they move.
        minute_ms, hold_ms: as of ``RedisLedger``.
    """

    def __init__(
        self, clock: Callable[[], float], *, minute_ms: int = 60_000, hold_ms: int = 15_000
    ) -> None:
        self._clock = clock
        self.minute_ms = minute_ms
        self.hold_ms = hold_ms
        self._width = minute_ms / SLICES
        self._lock = threading.Lock()
        self._keys: dict[str, _Key] = {}
        self._limits: dict[str, Limit] = {}

    def _key(self, key: str) -> _Key:
        found = self._keys.setdefault(key, _Key())
        now = self._clock()
        oldest = int(now / self._width) - SLICES
        for part in [part for part in found.used if part < oldest]:
            del found.used[part]
        for call in [call for call, until in found.flying.items() if until <= now]:
            del found.flying[call]
        for place in [p for p in found.queue.values() if p.due <= now - KEPT_MS]:
            del found.queue[place.job]
        return found

    def reserve(self, key: str, limit: Limit, ask: Ask) -> Verdict:
        """See ``Ledger.reserve``."""
        with self._lock:
            here, now = self._key(key), self._clock()
            part = int(now / self._width)
            if limit.tpm is not None and ask.tokens > limit.tpm:
                here.too_large = max(here.too_large, ask.tokens)
                return TooLarge()
            if ask.call in here.flying:
                return Granted(part)
            return self._decide(here, limit, ask, now, part)

    def _decide(self, here: _Key, limit: Limit, ask: Ask, now: float, part: int) -> Verdict:
        order = here.order()
        mine = here.queue.get(ask.job)
        last = here.turns.get(ask.tenant, 0) if order else 0
        turn = mine.turn if mine else max(here.served, last) + 1
        first = order.index(mine) if mine else sum(place.turn <= turn for place in order)
        before = order[: min(first, LOOKED_AT)]
        expected = [p for p in before if now - LATE_MS < p.due <= now + SOON_MS]
        free = _Free(here, limit)
        if here.closed <= now and free.allows(expected, ask.tokens):
            count = here.used.setdefault(part, [0, 0])
            count[0] += 1
            count[1] += ask.tokens
            here.flying[ask.call] = now + self.hold_ms
            self._served(here, ask, turn, queued=mine is not None)
            return Granted(part)
        wait = self._wait(here, limit, ask, free, now, first, before, len(expected))
        if mine is None:
            here.turns[ask.tenant] = turn
        here.queue[ask.job] = _Place(ask.job, turn, now + wait, ask.tokens)
        here.waits += 1
        return Wait(wait, first, here.closed > now)

    def _served(self, here: _Key, ask: Ask, turn: int, *, queued: bool) -> None:
        here.queue.pop(ask.job, None)
        if not here.queue:
            here.turns.clear()
            here.served = 0
            return
        head = min(place.turn for place in here.queue.values())
        here.served = max(here.served, min(turn, head))
        if not queued:
            here.turns[ask.tenant] = turn

    def _wait(
        self,
        here: _Key,
        limit: Limit,
        ask: Ask,
        free: _Free,
        now: float,
        first: int,
        before: list[_Place],
        expected: int,
    ) -> int:
        """Milliseconds until the turn of a job has probably come."""
        minute, rpm, tpm, places = self.minute_ms, limit.rpm, limit.tpm, limit.in_flight
        seen = sum(place.tokens for place in before)
        rest = (first - len(before)) * seen / len(before) if before else 0
        pace = max(minute / rpm if rpm else 0, here.hold / places if places else 0, 20)
        waits: list[float] = [20, 50 * min(expected, 20)]
        if here.closed > now:
            waits.append(here.closed - now + first * pace)
        if rpm:
            waits.append(self._frees(here, now, first + 1 - free.requests, 0, rpm, 1))
        if tpm:
            need = seen + rest + ask.tokens - free.tokens
            waits.append(self._frees(here, now, need, 1, tpm, ask.tokens))
        if places and first + 1 > free.places:
            waits.append((first + 1 - free.places) * here.hold / places)
        return math.ceil(max(waits))

    def _frees(
        self, here: _Key, now: float, need: float, which: int, limit: int, own: int
    ) -> float:
        """When so much of the minute's use will have been forgotten, and that at a steady pace."""
        if need <= 0:
            return 0
        left, at, first = need, None, None
        for part, counts in sorted(here.used.items()):
            if counts[which] > 0:
                gone = (part + SLICES + 1) * self._width - now
                first = gone if first is None else first
                left -= counts[which]
                if left <= 0:
                    at = gone
                    break
        first = first or 0
        if at is None:
            at = first + self.minute_ms + left * self.minute_ms / limit
        return max(at, first + max(0, need - own) * self.minute_ms / limit)

    def settle(self, key: str, settled: Settled) -> None:
        """See ``Ledger.settle``."""
        with self._lock:
            here, now = self._key(key), self._clock()
            if settled.close_ms > 0:
                here.closed = max(here.closed, now + settled.close_ms)
            if here.flying.pop(settled.call, None) is None:
                return
            if settled.part in here.used:
                count = here.used[settled.part]
                count[1] = max(0, count[1] + settled.more)
            hold = here.hold if here.settled else settled.took_ms
            here.hold = math.ceil(hold + (settled.took_ms - hold) / 8)
            here.settled = True

    def renew(self, key: str, calls: list[str]) -> None:
        """See ``Ledger.renew``."""
        with self._lock:
            flying = self._key(key).flying
            flying.update({call: self._clock() + self.hold_ms for call in calls if call in flying})

    def withdraw(self, key: str, job: str) -> None:
        """See ``Ledger.withdraw``."""
        with self._lock:
            self._key(key).queue.pop(job, None)

    def use(self, key: str) -> Use:
        """See ``Ledger.use``."""
        with self._lock:
            here = self._key(key)
            return Use(
                requests=sum(count[0] for count in here.used.values()),
                tokens=sum(count[1] for count in here.used.values()),
                in_flight=len(here.flying),
                waiting=len(here.queue),
                closed_ms=max(0, math.ceil(here.closed - self._clock())),
                waits=here.waits,
                too_large=here.too_large,
            )

    def limits(self) -> dict[str, Limit]:
        """See ``Ledger.limits``."""
        with self._lock:
            return dict(sorted(self._limits.items()))

    def set_limit(self, key: str, limit: Limit | None) -> bool:
        """See ``Ledger.set_limit``."""
        with self._lock:
            before = self._limits.pop(key, None)
            if limit is not None:
                self._limits[key] = limit
            return before is not None


class _Free:
    """What is left of each limit."""

    def __init__(self, here: _Key, limit: Limit) -> None:
        used = here.used.values()
        self.requests = INF if limit.rpm is None else limit.rpm - sum(c[0] for c in used)
        self.tokens = INF if limit.tpm is None else limit.tpm - sum(c[1] for c in used)
        self.places = INF if limit.in_flight is None else limit.in_flight - len(here.flying)

    def allows(self, expected: list[_Place], tokens: int) -> bool:
        """Whether there is room for a call, and for those that are expected before it."""
        others = len(expected)
        wanted = sum(place.tokens for place in expected) + tokens
        return others < self.requests and others < self.places and wanted <= self.tokens
