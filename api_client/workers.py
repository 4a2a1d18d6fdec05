"""Workers as they announce themselves: a heartbeat each, which tells what they are."""

from __future__ import annotations

from collections.abc import Sequence

from api_client.connection import Client, translated
from api_client.keys import WORKERS
from api_client.shapes import Contract

BEAT_S = 10.0
"""Seconds between two heartbeats."""

LIVE_S = 45.0
"""A worker whose last heartbeat is older has died, or cannot reach the store."""

_FORGOTTEN_S = 24 * 3600


class WorkerInfo(Contract):
    """One worker.

    Attributes:
        name: its Celery node name.
        pool: ``prefork``, ``threads`` or ``solo``.
        slots: tasks that it runs at once.
        in_flight: jobs that wait for their model on its event loop at once; 0 if it has none.
        queues: that it takes messages from.
        agents: that it runs, each with its version, as ``shop 3f2a90c1d4e5``.
        release: version of Stepkeeper.
        keys: names of its keys for encryption, the one that encrypts first; ``None`` if it did not
            say. A name tells nothing of its key.
        started, seen: its start and its last heartbeat, milliseconds on Redis's clock.
    """

    name: str
    pool: str = ""
    slots: int = 0
    in_flight: int = 0
    queues: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    release: str = ""
    keys: tuple[str, ...] | None = None
    started: int = 0
    seen: int = 0


class RedisWorkers:
    """Mixed into the stores on Redis, which have the connection."""

    _redis: Client
    _where: str

    def now_ms(self) -> int:
        """Redis's clock: milliseconds since the epoch.

        Raises:
            StoreUnavailable
        """
        with translated(self._where):
            return self._now_ms()

    def _now_ms(self) -> int:
        seconds, micros = self._redis.time()
        return int(seconds * 1000 + micros // 1000)

    def workers(self) -> Sequence[WorkerInfo]:
        """See ``JobStore.workers``."""
        with translated(self._where):
            now = self._now_ms()
            found = [WorkerInfo.model_validate_json(raw) for raw in self._redis.hvals(WORKERS)]
        return sorted(living(found, now), key=lambda info: info.name)

    def beat(self, info: WorkerInfo) -> WorkerInfo:
        """See ``CheckpointStore.beat``; workers that have been silent for long are forgotten."""
        with translated(self._where):
            now = self._now_ms()
            fresh = info.model_copy(update={"started": info.started or now, "seen": now})
            known = [WorkerInfo.model_validate_json(raw) for raw in self._redis.hvals(WORKERS)]
            gone = [one.name for one in known if not living([one], now, _FORGOTTEN_S)]
            pipeline = self._redis.pipeline(transaction=False)
            if gone:
                pipeline.hdel(WORKERS, *gone)
            pipeline.hset(WORKERS, fresh.name, fresh.model_dump_json())
            pipeline.expire(WORKERS, _FORGOTTEN_S)
            pipeline.execute()
        return fresh

    def part(self, name: str) -> None:
        """See ``CheckpointStore.part``."""
        with translated(self._where):
            self._redis.hdel(WORKERS, name)


def living(infos: Sequence[WorkerInfo], now: int, within_s: float = LIVE_S) -> list[WorkerInfo]:
    """Those that were seen lately."""
    return [info for info in infos if now - info.seen <= within_s * 1000]
