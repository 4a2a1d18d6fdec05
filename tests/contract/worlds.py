"""The stores under test, each in a world whose clock the test moves.

Memory is given its clock. Redis has its own, which nobody can set: there, moving time on by a
minute means to put everything that is stored a minute further into the past.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

import redis

from api_client.contract import JobStatus
from api_client.keys import Keys, partition_of
from api_client.runs import write_run
from tests.support.moving import move_time
from worker.store.base import CheckpointStore
from worker.store.memory import MemoryStore
from worker.store.redis import RedisCheckpointStore

SECOND = 1000
MINUTE = 60 * SECOND


class World(ABC):
    """A store, its clock, and a look behind its curtain."""

    name: str
    store: CheckpointStore
    partitions: int = 1

    @abstractmethod
    def advance(self, ms: int) -> None:
        """Let time pass."""

    @abstractmethod
    def raw(self, job_id: str) -> Any:
        """Everything that is stored of a job, in a form that compares."""

    @abstractmethod
    def due_in(self, job_id: str) -> int | None:
        """Milliseconds until a sweep must look at a job; None if it stands in no index for that."""

    @abstractmethod
    def places(self, job_id: str) -> list[str]:
        """Where a job stands to be found again, sorted: ``due``, ``hinted``, ``ready``."""

    @abstractmethod
    def turn(self, job_id: str) -> str:
        """The turn that is noted of a job; empty if there is none."""

    @abstractmethod
    def turn_counts(self) -> dict[str, int]:
        """How many jobs of each tenant are counted in each turn, such as ``running:acme``."""

    @abstractmethod
    def lease_left(self, job_id: str) -> int:
        """Milliseconds of a job's lease, 0 or less if nobody holds it."""

    @abstractmethod
    def left_behind(self) -> list[str]:
        """Names of what is still stored; agents, and what happened to all jobs, aside."""


class MemoryWorld(World):
    """The store in memory."""

    name = "memory"

    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self.memory = MemoryStore(clock=lambda: self.now)
        self.store = self.memory

    def advance(self, ms: int) -> None:
        """See ``World.advance``."""
        self.now += ms

    def raw(self, job_id: str) -> Any:
        """See ``World.raw``."""
        return repr(self.memory._jobs.get(job_id))

    def due_in(self, job_id: str) -> int | None:
        """See ``World.due_in``."""
        job = self.memory._jobs.get(job_id)
        return None if job is None or job.due is None else job.due - self.now

    def places(self, job_id: str) -> list[str]:
        """See ``World.places``."""
        job = self.memory._jobs.get(job_id)
        found = ["due"] if job is not None and job.due is not None else []
        for lane in self.memory.turns._lanes.values():
            found += ["hinted"] * (job_id in lane.hinted)
            waiting = [place for entries in lane.ready.values() for _, place in entries]
            found += ["ready" for place in waiting if place.job_id == job_id]
        return sorted(found)

    def turn(self, job_id: str) -> str:
        """See ``World.turn``."""
        job = self.memory._jobs.get(job_id)
        return "" if job is None or job.place is None else job.place.turn

    def turn_counts(self) -> dict[str, int]:
        """See ``World.turn_counts``."""
        turns = self.memory.turns
        found = Counter({f"{turn}:{name}": n for (name, turn), n in turns.busy.items()})
        for lane in turns._lanes.values():
            found.update({f"ready:{name}": len(waiting) for name, waiting in lane.ready.items()})
        return dict(+found)

    def lease_left(self, job_id: str) -> int:
        """See ``World.lease_left``."""
        job = self.memory._jobs.get(job_id)
        return 0 if job is None else job.lease - self.now

    def left_behind(self) -> list[str]:
        """See ``World.left_behind``."""
        return [job.spec.job_id for job in self.memory._all()]


class RedisWorld(World):
    """The store on a real server."""

    def __init__(self, url: str, partitions: int = 1) -> None:
        self.name = f"redis-{partitions}"
        self.partitions = partitions
        self.client: Any = redis.Redis.from_url(url, protocol=2)
        self.store = RedisCheckpointStore(self.client, partitions=partitions)

    def _keys(self, job_id: str) -> Keys:
        return Keys(partition_of(job_id, self.partitions))

    def _now(self) -> int:
        seconds, micros = self.client.time()
        return int(seconds * 1000 + micros // 1000)

    def advance(self, ms: int) -> None:
        """See ``World.advance``."""
        move_time(self.client, ms)

    def raw(self, job_id: str) -> Any:
        """See ``World.raw``."""
        keys = self._keys(job_id)
        pipeline = self.client.pipeline(transaction=True)
        pipeline.hgetall(keys.job(job_id))
        pipeline.lrange(keys.messages(job_id), 0, -1)
        pipeline.xrange(keys.trace(job_id))
        pipeline.zscore(keys.due, job_id)
        for name in (*JobStatus, "poison", "published"):
            pipeline.zscore(keys.index_prefix + name, job_id)
        return pipeline.execute()

    def due_in(self, job_id: str) -> int | None:
        """See ``World.due_in``."""
        score = self.client.zscore(self._keys(job_id).due, job_id)
        return None if score is None else int(score) - self._now()

    def places(self, job_id: str) -> list[str]:
        """See ``World.places``."""
        prefix = self._keys(job_id).prefix
        names = [prefix + "due", *self.client.scan_iter(prefix + "hinted:*", count=1000)]
        names += self.client.scan_iter(prefix + "ready:*", count=1000)
        found = [name for name in names if self.client.zscore(name, job_id) is not None]
        texts = [name if isinstance(name, str) else name.decode() for name in found]
        return sorted(text.removeprefix(prefix).partition(":")[0] for text in texts)

    def turn(self, job_id: str) -> str:
        """See ``World.turn``."""
        turn = self.client.hget(self._keys(job_id).job(job_id), "turn")
        return "" if turn is None else str(turn.decode())

    def turn_counts(self) -> dict[str, int]:
        """See ``World.turn_counts``."""
        found: Counter[str] = Counter()
        for number in range(self.partitions):
            counts = self.client.hgetall(Keys(number).counts)
            found.update({name.decode(): int(value) for name, value in counts.items()})
        lanes = ("line:", "busy:", "window:")
        return {name: n for name, n in found.items() if not name.startswith(lanes)}

    def lease_left(self, job_id: str) -> int:
        """See ``World.lease_left``."""
        lease = self.client.hget(self._keys(job_id).job(job_id), "lease")
        return 0 if lease is None else int(lease) - self._now()

    def left_behind(self) -> list[str]:
        """See ``World.left_behind``."""
        found = (key.decode() for key in self.client.scan_iter("{sk:*"))
        return sorted(key for key in found if not key.endswith(":events"))

    def close(self) -> None:
        """Give the connections back."""
        self.client.close()


def run_json(steps: int, **more: Any) -> str:
    """A run state, as far as the store reads it."""
    return write_run({"steps": steps, **more})
