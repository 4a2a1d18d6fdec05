"""How the whole store stands: jobs by agent and status, open pauses, what is overdue."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from api_client.connection import translated
from api_client.contract import JobStatus
from api_client.keys import Keys
from api_client.lists import POISON as POISON
from api_client.redis_store import RedisJobStore
from api_client.sealing import sealed_with

LOOKED_AT = 5_000
"""Most jobs in one status and partition that are looked at one by one."""

SAMPLE = 400
"""Jobs in one status and partition of which it is looked up how they are encrypted."""

LARGEST_READ = 100_000
"""Bytes of an input that is read for that."""

_LIVE = (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.WAITING, JobStatus.PAUSED)


@dataclass(slots=True)
class Survey:
    """What one look at the store found.

    Attributes:
        jobs: how many there are, by agent and status; of ended ones, and of those beyond the
            limit, the agent is not looked up: it is ``""``.
        waits: for how many seconds each open pause has waited, by agent and kind.
        quarantined: poison jobs that nobody has decided about.
        overdue_s: for how many seconds the most overdue job has been due; 0 if none is.
    """

    jobs: Counter[tuple[str, str]] = field(default_factory=Counter)
    waits: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    quarantined: int = 0
    overdue_s: float = 0.0

    def count(self, status: JobStatus) -> int:
        """Jobs in one status, of all agents."""
        return sum(count for (_, found), count in self.jobs.items() if found == status)


@dataclass(slots=True)
class KeysInUse:
    """With which keys the jobs are encrypted that were looked at.

    Attributes:
        jobs: how many, by the name of a key; ``""`` for those that stand in the clear.
        examples: the id of one of them, likewise.
        complete: whether every job was looked at.
    """

    jobs: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    complete: bool = True


class SurveyStore(RedisJobStore):
    """The store on Redis, for who wants to see all of it."""

    def survey(self, limit: int = LOOKED_AT) -> Survey:
        """Look at everything once; not atomic.

        Args:
            limit: most jobs in one status and partition that are looked at one by one.
        """
        found = Survey()
        with translated(self._where):
            seconds, micros = self._redis.time()
            now = seconds * 1000 + micros // 1000
            for keys in self._partitions:
                self._count(keys, found)
                for status in _LIVE:
                    self._look(keys, status, limit, now, found)
        return found

    def keys_in_use(self, limit: int = SAMPLE) -> KeysInUse:
        """With which keys jobs are encrypted: inputs, and states, which may be newer.

        Args:
            limit: most jobs in one status and partition that are looked at: the oldest and the
                newest ones.
        """
        found = KeysInUse()
        with translated(self._where):
            for keys in self._partitions:
                for status in JobStatus:
                    self._look_at_keys(keys, status, limit, found)
        return found

    def _look_at_keys(self, keys: Keys, status: JobStatus, limit: int, found: KeysInUse) -> None:
        name, half = keys.index(status), limit // 2
        ids = [*self._redis.zrange(name, 0, half - 1), *self._redis.zrange(name, -half, -1)]
        found.complete = found.complete and self._redis.zcard(name) <= limit
        sizes = self._redis.pipeline(transaction=False)
        for job_id in (chosen := [*dict.fromkeys(ids)]):
            sizes.hstrlen(keys.job(job_id.decode()), "spec")
        pipeline = self._redis.pipeline(transaction=False)
        for job_id, size in zip(chosen, sizes.execute(), strict=True):
            record = keys.job(job_id.decode())
            pipeline.hmget(record, "run", *(["spec"] if size <= LARGEST_READ else []))
        for job_id, (run, *spec) in zip(chosen, pipeline.execute(), strict=True):
            values = [*spec, run and run.partition(b" ")[2]]
            for key in {sealed_with(value) for value in values if value}:
                found.jobs[key] += 1
                found.examples.setdefault(key, job_id.decode())

    def _count(self, keys: Keys, found: Survey) -> None:
        """What the indexes say."""
        pipeline = self._redis.pipeline(transaction=False)
        for status in JobStatus:
            pipeline.zcard(keys.index(status))
        pipeline.zcard(keys.index_prefix + POISON)
        pipeline.zrange(keys.due, 0, 0, withscores=True)
        pipeline.time()
        *counts, poison, due, (seconds, micros) = pipeline.execute()
        for status, count in zip(JobStatus, counts, strict=True):
            found.jobs["", str(status)] += int(count)
        found.quarantined += int(poison)
        if due:
            late_ms = seconds * 1000 + micros // 1000 - due[0][1]
            found.overdue_s = max(found.overdue_s, late_ms / 1000)

    def _look(self, keys: Keys, status: JobStatus, limit: int, now: int, found: Survey) -> None:
        """What the records of one status say."""
        ids = self._redis.zrange(keys.index(status), 0, limit - 1)
        pipeline = self._redis.pipeline(transaction=False)
        for job_id in ids:
            pipeline.hmget(keys.job(job_id.decode()), "agent", "since", "pause")
        for agent, since, pause in pipeline.execute():
            name = _text(agent)
            if not name:
                continue
            found.jobs["", str(status)] -= 1
            found.jobs[name, str(status)] += 1
            if status is JobStatus.PAUSED and pause:
                waited = max(0.0, (now - int(since)) / 1000)
                found.waits.setdefault((name, _kind(pause)), []).append(waited)


def _kind(pause: bytes) -> str:
    """The kind of a stored pause; of one that somebody else has written ``unreadable``."""
    try:
        return str(json.loads(pause)["kind"])
    except (ValueError, TypeError, KeyError):
        return "unreadable"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else ""
