"""The part of the store on Redis that keeps jobs alive: hints, timetables, announcements, slots."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from typing import Any

from api_client.connection import translated
from api_client.contract import (
    DEFAULT_RETENTION_S,
    JOB_ID_PATTERN,
    AgentInfo,
    JobSpec,
    JobStatus,
)
from api_client.errors import JobUnreadable
from api_client.keys import AGENTS
from api_client.records import dumps, spec_of, told_place
from api_client.redis_backlogs import stored_caps
from api_client.redis_store import RedisJobStore
from api_client.scripts import Argument, Scripts
from api_client.sealing import reveal
from api_client.tenants import shares_of
from worker.store.base import Hint, Post, PostState, Slots

log = logging.getLogger(__name__)

SCRIPTS = Scripts("worker.store")

POST_KEPT_S = 3 * 24 * 3600
"""For how long announcements outlive a job that is forgotten sooner."""

LOCKED_MS = 60_000
"""How long a job is left alone of which something is encrypted with a key that is missing here."""

POSTED_KEPT = 1000
"""How many announcements the log of those that are over keeps, in each partition."""


class RedisKeeping(RedisJobStore):
    """What workers do for jobs that nobody runs at the moment."""

    def _call(self, name: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        return self._run(name, keys, args, SCRIPTS)

    def published(self, job_id: str, channels: Sequence[str] = ()) -> None:
        """See ``CheckpointStore.published``."""
        args: list[Argument] = [job_id, ",".join(channels), POST_KEPT_S]
        self._call("published", self._keys(job_id).of_telling(job_id), args)

    def pace(
        self,
        job_id: str,
        pause_id: str,
        kept: int,
        labels: Sequence[str] | None = None,
        channels: Sequence[str] = (),
    ) -> bool:
        """See ``CheckpointStore.pace``."""
        args: list[Argument] = [
            job_id,
            pause_id,
            kept,
            "reminder" if labels is None else "escalated",
            "" if labels is None else dumps(list(labels)),
            ",".join(channels),
        ]
        return bool(self._call("pace", self._keys(job_id).of_telling(job_id), args))

    def fetch_post(self, limit: int, lease_ms: int) -> list[Post]:
        """See ``CheckpointStore.fetch_post``."""
        found: list[Post] = []
        for keys in self._partitions:
            reply = self._call("fetch_post", [keys.outbox, keys.post_prefix], [limit, lease_ms])
            posts = zip(reply[::4], reply[1::4], reply[2::4], reply[3::4], strict=True)
            for post_id, text, tries, payload in posts:
                told, name = json.loads(text), post_id.decode()
                stored = payload or told["payload"].encode()
                try:
                    told["payload"] = _payload(name, told["event"], stored)
                except ValueError as error:
                    log.error("announcement %s is put off: %s", name, error)
                    self._note_post(name, "pending", str(error), LOCKED_MS, counts=False)
                    continue
                found.append(Post(name, tries=int(tries), **told))
        return found

    def note_post(self, post_id: str, state: PostState, error: str = "", delay_ms: int = 0) -> None:
        """See ``CheckpointStore.note_post``."""
        self._note_post(post_id, state, error, delay_ms, counts=True)

    def _note_post(
        self, post_id: str, state: PostState, error: str, delay_ms: int, *, counts: bool
    ) -> None:
        job_id, _, number = post_id.rpartition("/")
        keys = self._keys(job_id)
        names = [keys.outbox, keys.post_prefix + job_id, keys.posted]
        args: list[Argument] = [post_id, number, state, error, delay_ms, POSTED_KEPT]
        args.append("" if counts else "1")
        self._call("note_post", names, args)

    def missed(self, job_id: str) -> None:
        """See ``CheckpointStore.missed``."""
        if JOB_ID_PATTERN.fullmatch(job_id):
            self._call("missed", [self._keys(job_id).job(job_id)], [])

    def wake(self, job_id: str) -> JobSpec | None:
        """See ``CheckpointStore.wake``."""
        spec = self._call("wake", self._keys(job_id).of_transition(job_id), [job_id])
        return None if spec is None else spec_of(job_id, spec)

    def sweep(self, *, limit: int, grace_ms: int, cap_ms: int) -> list[Hint]:
        """See ``CheckpointStore.sweep``."""
        hints: list[Hint] = []
        for keys in self._partitions:
            names = [keys.due, keys.job_prefix, keys.index_prefix]
            looked_at, found = limit, 0
            while looked_at == limit and found < limit:  # many may have lined up without a hint
                looked_at, reply, again = self._call("sweep", names, [limit, grace_ms, cap_ms])
                found += len(reply) // 3
                hints.extend(read_hints(reply, {job_id.decode() for job_id in again}))
        return hints

    def abandon(
        self, owner_prefix: str, *, keep: str = "", job_id: str = "", delay_ms: int = 0
    ) -> list[JobSpec]:
        """See ``CheckpointStore.abandon``."""
        partitions = [self._keys(job_id)] if job_id else self._partitions
        freed: list[JobSpec] = []
        for keys in partitions:
            names = [keys.due, keys.job_prefix, keys.index(JobStatus.RUNNING)]
            reply = self._call("abandon", names, [owner_prefix, keep, job_id, delay_ms])
            found = zip(reply[::2], reply[1::2], strict=True)
            freed.extend(spec for item in found for spec in _readable_spec(*item))
        return freed

    def announce_slots(self, slots: Slots) -> None:
        """See ``CheckpointStore.announce_slots``; each partition has an equal share of them."""
        many = len(self._partitions)
        caps = {agent: list(stored_caps(cap, many)) for agent, cap in slots.backlogs.items()}
        for keys, share in zip(self._partitions, shares_of(slots.slots, many), strict=True):
            own = {agent: texts[keys.partition] for agent, texts in caps.items()}
            args: list[Argument] = [
                slots.node,
                share,
                dumps(list(slots.queues)),
                dumps(dict(slots.agents)),
                slots.kept_ms,
                dumps(own),
            ]
            self._call("slots", [keys.nodes, keys.lanes, keys.caps], args)

    def announce(self, agents: Sequence[AgentInfo]) -> None:
        """See ``CheckpointStore.announce``; what nobody announces again is forgotten."""
        if not agents:
            return
        with translated(self._where):
            seconds, micros = self._redis.time()
            seen = seconds * 1000 + micros // 1000
            mapping = {
                a.name: a.model_copy(update={"seen": seen}).model_dump_json() for a in agents
            }
            pipeline = self._redis.pipeline(transaction=False)
            pipeline.hset(AGENTS, mapping=mapping)
            pipeline.expire(AGENTS, DEFAULT_RETENTION_S)
            pipeline.execute()


def _payload(post_id: str, event: str, stored: bytes) -> str:
    """The pause or the outcome of an announcement."""
    return reveal(stored, post_id.rpartition("/")[0], told_place(event))


def read_hints(found: Sequence[bytes], again: Collection[str] = ()) -> list[Hint]:
    """Hints from a flat list of job id, status and spec.

    Args:
        again: ids of those that are in a queue, if nothing was lost.
    """
    triples = zip(found[::3], found[1::3], found[2::3], strict=True)
    return [
        Hint(spec, JobStatus(status.decode()), again=spec.job_id in again)
        for job_id, status, stored in triples
        for spec in _readable_spec(job_id, stored)
    ]


def _readable_spec(job_id: bytes, stored: bytes) -> list[JobSpec]:
    """The spec; none if it cannot be read, which must not hold up all the other jobs."""
    try:
        return [spec_of(job_id.decode(), stored)]
    except JobUnreadable as error:
        log.error("left where it is: %s", error)
        return []
