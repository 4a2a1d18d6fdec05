"""What a chaos run is asked to do, and the sizes that have names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from api_client.errors import InvalidInput
from worker.embedded import Fsync

Pool = Literal["threads", "prefork"]

PROFILES: dict[str, dict[str, Any]] = {
    "small": {"jobs": 40, "workers": 2, "kills": 6, "redis_restarts": 1},
    "default": {"jobs": 300, "workers": 2, "kills": 30, "redis_restarts": 3},
    "nightly": {"jobs": 10_000, "workers": 4, "kills": 400, "redis_restarts": 30},
}


@dataclass(frozen=True, slots=True)
class Options:
    """One chaos run. The same options draw the same jobs and the same strikes.

    Attributes:
        jobs: to submit.
        workers: processes to run them on; each is a Celery worker.
        kills: SIGKILLs of workers while jobs run on them.
        redis_restarts: SIGKILLs of the Redis that is store, broker and result backend at once.
        seed: of everything that is drawn: kinds of jobs, moments and targets of strikes.
        pool: of the workers.
        concurrency: jobs at once in one worker.
        in_flight: if above 0, that many jobs at once on an event loop beside the slots.
        appendfsync: of Redis.
        lease_s: seconds after which a dead worker's jobs are taken over by another worker.
        deadline_s: seconds after the last strike in which every job must have come to its end;
            before that, seconds without any movement after which the run is given up and judged.
        keep: folder that keeps ledger, logs, data and report; a temporary one if not given.
    """

    jobs: int = 300
    workers: int = 2
    kills: int = 30
    redis_restarts: int = 3
    seed: int = 1
    pool: Pool = "threads"
    concurrency: int = 16
    in_flight: int = 0
    appendfsync: Fsync = "always"
    lease_s: float = 5.0
    deadline_s: float = 120.0
    keep: Path | None = None

    def __post_init__(self) -> None:
        at_least = {"jobs": 1, "workers": 1, "concurrency": 1, "in_flight": 0}
        at_least |= {"kills": 0, "redis_restarts": 0}
        for name, least in at_least.items():
            value = getattr(self, name)
            if value < least:
                raise InvalidInput(f"{name}={value}: must be at least {least}")
        if self.in_flight and self.pool != "threads":
            raise InvalidInput(f"in_flight={self.in_flight}: only with pool='threads'")
        if self.lease_s < 1:
            raise InvalidInput(f"lease_s={self.lease_s:g}: must be at least 1 second")
        if self.deadline_s <= 0:
            raise InvalidInput(f"deadline_s={self.deadline_s:g}: must be above 0")

    @property
    def nodes(self) -> tuple[str, ...]:
        """The Celery node names of the workers."""
        return tuple(f"chaos{number}@stepkeeper" for number in range(1, self.workers + 1))

    @property
    def window(self) -> int:
        """Most jobs under way at once: few enough for the slots of the workers that are up.

        So recovery is measured, and not the length of a queue.
        """
        at_once = self.in_flight or self.concurrency
        return max(4, round((self.workers - 0.5) * at_once))
