"""What an operator does to jobs and asks of the store: quarantine, purge, fork, durability."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from redis.exceptions import ResponseError

from api_client.connection import translated
from api_client.contract import SCHEMA_VERSION, JobSpec, JobStatus, JobView
from api_client.errors import Conflict, StoreUnavailable
from api_client.faithful import check_faithful
from api_client.records import MESSAGE, TRACE, dumps, field_text, sealed_run
from api_client.redis_store import FIRST_HINT_GRACE_MS, labels_of
from api_client.refusals import not_found
from api_client.runs import number, numbered
from api_client.sealing import seal
from api_client.survey import POISON, SurveyStore
from api_client.tenants import turn_of

_CALLERS_OWN = ("link", "link_error", "chain", "chord", "group_id", "group_index", "reply_to")


@dataclass(frozen=True, slots=True)
class Durability:
    """What an accepted job survives.

    Attributes:
        survives: ``"power_loss"`` (``appendfsync always``), ``"process_crash"`` (``everysec`` or
            ``no``: the server's process may die, a power loss takes up to about two seconds),
            ``"nothing"`` (no append-only file), ``"unknown"`` (the server does not say).
        appendonly, appendfsync, maxmemory_policy: the server's own words, ``None`` if it is not
            allowed to read them.
        replicas: connected now, ``None`` if it is not allowed to read that.
        wait_replicas: how many must hold a job before this client calls it accepted.
    """

    survives: Literal["power_loss", "process_crash", "nothing", "unknown"]
    appendonly: bool | None
    appendfsync: str | None
    maxmemory_policy: str | None
    replicas: int | None
    wait_replicas: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a forked job begins with.

    Attributes:
        messages: the transcript.
        run: the loop's state that belongs to it, JSON; empty for a job that has not begun.
        record: for its trace: where it comes from.
    """

    messages: Sequence[Mapping[str, Any]]
    run: str
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoredKey:
    """One Redis key of a job.

    Attributes:
        kind: of the value: ``hash``, ``list``, ``stream`` or ``string``.
        size: bytes that it takes on the server.
        expires_ms: until it is forgotten; ``None``: it stays until the job has ended.
    """

    name: str
    kind: str
    size: int
    expires_ms: int | None


class AdminStore(SurveyStore):
    """The store as operators see it."""

    def keys_of(self, job_id: str) -> list[StoredKey]:
        """The job's own keys; indexes, which it shares with others, are not among them.

        Raises:
            JobNotFound
        """
        self.read(job_id)
        keys = self._keys(job_id)
        names = [*keys.of_job(job_id), keys.live(job_id), keys.post_prefix + job_id]
        with translated(self._where):
            pipeline = self._redis.pipeline(transaction=False)
            for name in names:
                pipeline.type(name).memory_usage(name).pttl(name)
            replies = pipeline.execute()
        found = zip(names, replies[::3], replies[1::3], replies[2::3], strict=True)
        return [
            StoredKey(name, kind.decode(), int(size), left if left >= 0 else None)
            for name, kind, size, left in found
            if size is not None
        ]

    def ended_before(self, status: JobStatus, before_ms: int, limit: int = 1000) -> list[str]:
        """Ids of jobs that ended with ``status`` before a time, the first ones first.

        Args:
            before_ms: milliseconds since the epoch.
            limit: the most in each partition.
        """
        found: list[str] = []
        with translated(self._where):
            for keys in self._partitions:
                entries = self._redis.zrangebyscore(
                    keys.index(status), "-inf", f"({before_ms}", start=0, num=limit
                )
                found.extend(entry.decode() for entry in entries)
        return found

    def purge(self, job_id: str, *, force: bool = False) -> None:
        """Forget a job that has ended: record, transcript, trace and index entries.

        Args:
            force: also if its outcome has not reached the result backend yet.

        Raises:
            JobNotFound
            Conflict: it has not ended, or is not published; nothing was changed.
        """
        keys = self._keys(job_id).of_telling(job_id)
        reply = [item.decode() for item in self._run("purge", keys, [job_id, int(force)])]
        match reply:
            case ["missing"]:
                raise not_found(job_id)
            case ["not_ended", status]:
                raise Conflict(f"job {job_id} is {status}; cancel it first, then purge it")
            case ["not_published"]:
                raise Conflict(
                    f"job {job_id} has ended, but its outcome has not reached the result backend; "
                    "start a worker, or purge it with force"
                )

    def quarantined(self, limit: int = 100) -> list[JobView]:
        """Poison jobs: their workers died again and again at the same step."""
        return list(self.jobs("poison", limit=limit, newest_first=False))

    def fork(self, job_id: str, *, new_id: str | None = None, why: str = "fork") -> JobSpec:
        """Accept a new job that goes on from where another one ended.

        It takes over the transcript and the budgets spent; callbacks, chains and chords have had
        their answer from the old job and stay with it. A job that has ended never runs again
        under its own id.

        Raises:
            JobNotFound
            Conflict: the job has not ended, or ``new_id`` exists.
        """
        return self._go_on(job_id, why, new_id, keys_of="")

    def _go_on(self, job_id: str, why: str, new_id: str | None, *, keys_of: str) -> JobSpec:
        view, run = self._ended(job_id)
        beginning = Beginning(self.messages(job_id), run, {why: job_id})
        like = view.spec.model_copy(update={"keys_of": keys_of})
        return self._begin(like, new_id, beginning)

    def rerun(
        self,
        job_id: str,
        beginning: Beginning,
        *,
        changes: Mapping[str, Any] | None = None,
        new_id: str | None = None,
    ) -> JobSpec:
        """Accept a new job that begins with a part of another one, whatever becomes of that.

        Args:
            changes: fields of the spec that are to be others, such as ``input``.

        Raises:
            JobNotFound
            InvalidInput: what is changed could not be read back.
            Conflict: ``new_id`` exists.
        """
        spec = self.read(job_id).spec.model_copy(update={"parent": "", **(changes or {})})
        check_faithful(f"job for agent {spec.agent!r}", spec)
        return self._begin(spec, new_id, beginning)

    def _begin(self, like: JobSpec, new_id: str | None, beginning: Beginning) -> JobSpec:
        message = {k: v for k, v in like.message.items() if k not in _CALLERS_OWN}
        new = new_id or str(uuid.uuid4())
        spec = like.model_copy(update={"job_id": new, "message": message})
        args: list[Any] = [
            new,
            seal(spec.model_dump_json(exclude_defaults=True), new, "spec"),
            spec.agent,
            SCHEMA_VERSION,
            spec.retention_s,
            FIRST_HINT_GRACE_MS,
            sealed_run(new, number(0, beginning.run)) if beginning.run else "",
            seal(dumps(beginning.record), new, TRACE),
            spec.tenant,
            labels_of(spec),
            *turn_of(spec),
            *(seal(dumps(message), new, MESSAGE) for message in beginning.messages),
        ]
        if not self._run("fork", self._keys(new).of_transition(new), args):
            raise Conflict(f"job {new} exists already; choose another id")
        return spec

    def _ended(self, job_id: str) -> tuple[JobView, str]:
        view = self.read(job_id)
        if not view.status.ended:
            raise Conflict(f"job {job_id} is {view.status}; only a job that has ended is forked")
        with translated(self._where):
            run = self._redis.hget(self._keys(job_id).job(job_id), "run")
        _, state = numbered(None if run is None else field_text(job_id, "run", run))
        return view, state or ""

    def release(self, job_id: str) -> JobSpec:
        """Let a poison job go on, under a new id, from its last checkpoint.

        The calls that are open keep their idempotency keys: some may have taken effect.

        Raises:
            JobNotFound
            Conflict: it is not in quarantine.
        """
        view = self.read(job_id)
        if view.outcome is None or view.outcome.reason != POISON:
            raise Conflict(f"job {job_id} is {view.status}, not in quarantine")
        kept = view.spec.keys_of or job_id
        spec = self._go_on(job_id, "released_from", None, keys_of=kept)
        keys = self._keys(job_id)
        with translated(self._where):
            self._redis.zrem(keys.index_prefix + POISON, job_id)
        return spec

    def durability(self) -> Durability:
        """What an accepted job survives, as far as the server tells."""
        replicas = self._told(lambda: self._redis.info("replication")).get("connected_slaves")
        aof = self._told(lambda: self._redis.info("persistence")).get("aof_enabled")
        appendfsync = self._setting("appendfsync")
        appendonly = None if aof is None else bool(int(aof))
        return Durability(
            survives=_survives(appendonly, appendfsync),
            appendonly=appendonly,
            appendfsync=appendfsync,
            maxmemory_policy=self._setting("maxmemory-policy"),
            replicas=None if replicas is None else int(replicas),
            wait_replicas=self._wait_replicas,
        )

    def _setting(self, name: str) -> str | None:
        return self._told(lambda: self._redis.config_get(name)).get(name)

    def _told(self, question: Callable[[], Mapping[Any, Any]]) -> dict[str, str]:
        """The server's answer; empty if this user may not ask it."""
        try:
            with translated(self._where):
                answer = question()
        except (StoreUnavailable, ResponseError) as error:
            if not any(word in str(error) for word in ("NOPERM", "unknown command")):
                raise
            return {}
        return {_text(name): _text(value) for name, value in answer.items()}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _survives(
    appendonly: bool | None, appendfsync: str | None
) -> Literal["power_loss", "process_crash", "nothing", "unknown"]:
    if appendonly is None:
        return "unknown"
    if not appendonly:
        return "nothing"
    if appendfsync is None:
        return "unknown"
    return "power_loss" if appendfsync == "always" else "process_crash"
