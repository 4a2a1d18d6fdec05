"""The ledger on Redis: one script a call, each key of a model in a slot of its own."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from api_client.connection import Client, translated
from api_client.scripts import Argument, Scripts
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

log = logging.getLogger(__name__)

LIMITS = "sk:limits"
"""Hash: the limits set at run time, JSON by model key."""

_SCRIPTS = Scripts("worker.flow")
_USE, _FLYING, _QUEUE, _DUES, _WANTS, _STATE, _TURNS = "uhqdwst"


def _names(key: str, parts: str) -> list[str]:
    return [f"{{sk:f:{key}}}:{part}" for part in parts]


class RedisLedger:
    """``Ledger`` on Redis.

    Args:
        client: an open redis-py client (bytes, not decoded).
        where: what errors call the server.
        minute_ms: the length of the minute that rates are counted by.
        hold_ms: after which a call that nobody renews counts as over.
    """

    def __init__(
        self,
        client: Client,
        *,
        where: str = "the store",
        minute_ms: int = 60_000,
        hold_ms: int = 15_000,
    ) -> None:
        self._redis = client
        self._where = where
        self.minute_ms = minute_ms
        self.hold_ms = hold_ms

    def _run(self, name: str, keys: list[str], args: list[Argument]) -> Any:
        with translated(self._where):
            return _SCRIPTS.run(self._redis, name, keys, args)

    def reserve(self, key: str, limit: Limit, ask: Ask) -> Verdict:
        """See ``Ledger.reserve``."""
        args: list[Argument] = [
            *(ask.call, ask.job, ask.tenant, ask.tokens),
            *(limit.rpm or 0, limit.tpm or 0, limit.in_flight or 0),
            *(self.minute_ms, SLICES, self.hold_ms, SOON_MS, LATE_MS, KEPT_MS, LOOKED_AT),
        ]
        match self._run("reserve", _names(key, "uhqdwst"), args):
            case [1, part]:
                return Granted(part)
            case [0, ms, before, closed]:
                return Wait(ms, before, bool(closed))
        return TooLarge()

    def settle(self, key: str, settled: Settled) -> None:
        """See ``Ledger.settle``."""
        args: list[Argument] = [
            settled.call,
            settled.part,
            settled.more,
            settled.took_ms,
            settled.close_ms,
        ]
        self._run("settle", _names(key, _USE + _FLYING + _STATE), args)

    def renew(self, key: str, calls: list[str]) -> None:
        """See ``Ledger.renew``."""
        self._run("renew", _names(key, _FLYING), [self.hold_ms, *calls])

    def withdraw(self, key: str, job: str) -> None:
        """See ``Ledger.withdraw``."""
        self._run("withdraw", _names(key, _QUEUE + _DUES + _WANTS), [job])

    def use(self, key: str) -> Use:
        """See ``Ledger.use``."""
        use, flying, queue, state = _names(key, _USE + _FLYING + _QUEUE + _STATE)
        with translated(self._where):
            seconds, micros = self._redis.time()
            now = seconds * 1000 + micros // 1000
            pipeline = self._redis.pipeline(transaction=False)
            pipeline.hgetall(use)
            pipeline.zcount(flying, now, "+inf")
            pipeline.zcard(queue)
            pipeline.hgetall(state)
            parts, in_flight, waiting, facts = pipeline.execute()
        since = int(now / (self.minute_ms / SLICES)) - SLICES
        counts = [v.split() for part, v in parts.items() if int(part) >= since]
        known = {name.decode(): int(value) for name, value in facts.items() if name != b"turn"}
        return Use(
            requests=sum(int(count[0]) for count in counts),
            tokens=sum(int(count[1]) for count in counts),
            in_flight=in_flight,
            waiting=waiting,
            closed_ms=max(0, known.get("closed", 0) - now),
            waits=known.get("waits", 0),
            too_large=known.get("too_large", 0),
        )

    def limits(self) -> dict[str, Limit]:
        """See ``Ledger.limits``; one that cannot be read is logged and left out."""
        with translated(self._where):
            stored = self._redis.hgetall(LIMITS)
        found = {}
        for key, text in sorted(stored.items()):
            try:
                found[key.decode()] = Limit.model_validate_json(text)
            except ValidationError as error:
                log.error("the stored limit of %s cannot be read, and is not kept: %s", key, error)
        return found

    def set_limit(self, key: str, limit: Limit | None) -> bool:
        """See ``Ledger.set_limit``."""
        with translated(self._where):
            if limit is None:
                return bool(self._redis.hdel(LIMITS, key))
            text = limit.model_dump_json(exclude_none=True)
            return not self._redis.hset(LIMITS, key, text)
