"""The client's half of the store on Redis."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Self

from api_client.backlogs import backlog_full
from api_client.connection import Client, connect, describe, translated
from api_client.contract import (
    JOB_ID_PATTERN,
    SCHEMA_VERSION,
    AgentInfo,
    Event,
    JobSpec,
    JobStatus,
    JobView,
    Signal,
)
from api_client.errors import JobNotFound, StorageFull, StoreUnavailable, shorten
from api_client.keys import AGENTS, Keys, partition_of
from api_client.live import LiveRecord, read_live
from api_client.permits import act_of, with_permit
from api_client.records import (
    TRACE,
    check_offset,
    dumps,
    pairs,
    read_event,
    read_message,
    read_record,
    spec_of,
    stored_outcome,
)
from api_client.redis_backlogs import RedisBacklogs
from api_client.redis_desk import RedisDesk
from api_client.refusals import cancelled_outcome, not_found, refusal
from api_client.room import Memory, Quotas
from api_client.scripts import Argument, Scripts
from api_client.sealing import hide, seal
from api_client.store import Cancelled, Created
from api_client.tenants import RedisTenants, turn_of

_SCRIPTS = Scripts("api_client")

FIRST_HINT_GRACE_MS = 5_000


def labels_of(spec: JobSpec) -> str:
    """A job's labels as scripts take them: JSON, or ``""`` for none."""
    return dumps(list(spec.labels)) if spec.labels else ""


class RedisJobStore(RedisDesk, RedisTenants, RedisBacklogs):
    """``JobStore`` on Redis.

    Args:
        client: an open redis-py client (bytes, not decoded).
        partitions: how many partitions the jobs are spread over; the same for every program.
        where: what errors call the server.
        wait_replicas: replicas that must hold a new job before ``create`` returns.
        wait_timeout_s: how long to wait for them, in seconds.
    """

    def __init__(
        self,
        client: Client,
        *,
        partitions: int = 1,
        where: str = "the store",
        wait_replicas: int = 0,
        wait_timeout_s: float = 2.0,
    ) -> None:
        self._redis = client
        self._where = where
        self._wait_replicas = wait_replicas
        self._wait_timeout_ms = int(wait_timeout_s * 1000)
        self._partitions = tuple(Keys(number) for number in range(partitions))
        self._memory = Memory(client, where)
        self._quotas = Quotas(client, where, self._partitions)

    @classmethod
    def from_url(
        cls, url: str, *, partitions: int = 1, timeout_s: float = 5.0, wait_replicas: int = 0
    ) -> Self:
        """A store on its own connections."""
        return cls(
            connect(url, timeout_s=timeout_s),
            partitions=partitions,
            where=describe(url),
            wait_replicas=wait_replicas,
        )

    def _keys(self, job_id: str) -> Keys:
        if not JOB_ID_PATTERN.fullmatch(job_id):
            raise JobNotFound(f"no job {shorten(job_id)}: that is not the form of a job id")
        return self._partitions[partition_of(job_id, len(self._partitions))]

    def _run(
        self,
        name: str,
        keys: Sequence[str],
        args: Sequence[Argument],
        scripts: Scripts = _SCRIPTS,
    ) -> Any:
        with translated(self._where, act_of(name)):
            return scripts.run(self._redis, name, with_permit(name, keys), args)

    def create(self, spec: JobSpec, delay_ms: int = 0, *, arrived: bool = False) -> Created:
        """See ``JobStore.create``."""
        self._check_room(spec)
        keys = self._keys(spec.job_id).of_transition(spec.job_id)
        text = spec.model_dump_json(exclude_defaults=True)
        args: list[Argument] = [
            spec.job_id,
            seal(text, spec.job_id, "spec"),
            spec.agent,
            SCHEMA_VERSION,
            spec.retention_s,
            FIRST_HINT_GRACE_MS,
            delay_ms,
            int(self._wait_replicas > 0),
            spec.tenant,
            labels_of(spec),
            *turn_of(spec),
            int(bool(spec.parent)),
            "" if spec.start_within_ms is None else spec.start_within_ms,
            int(arrived),
        ]
        match self._create(spec.job_id, keys, args):
            case [1, held]:
                self.hold(spec, len(text))
                return Created(spec, new=True, held=bool(held))
            case [0, stored, held]:
                return Created(spec_of(spec.job_id, stored), new=False, held=bool(held))
            case [_, name, present, cap, kind]:
                many = len(self._partitions)
                raise backlog_full(kind.decode(), name.decode(), present, cap, many)
        raise AssertionError("create.lua answers in one of three ways")

    def _check_room(self, spec: JobSpec) -> None:
        """Refuse a new job for which there is no room; work that has begun may bring further ones.

        Raises:
            StorageFull
        """
        if spec.parent:
            return
        try:
            self._memory.check()
            self._quotas.check(spec.tenant)
        except StorageFull:
            with translated(self._where):
                if not self._redis.exists(self._keys(spec.job_id).job(spec.job_id)):
                    raise

    def hold(self, spec: JobSpec, size: int) -> None:
        """See ``JobStore.hold``."""
        self._quotas.hold(self._keys(spec.job_id), spec.job_id, spec.tenant, size)

    def _create(self, job_id: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        """Run the script; if asked to, wait on the same connection until replicas have it."""
        if not self._wait_replicas:
            return self._run("create", keys, args)
        with translated(self._where, act_of("create")), self._redis.client() as connection:
            reply = _SCRIPTS.run(connection, "create", with_permit("create", keys), args)
            reached = connection.wait(self._wait_replicas, self._wait_timeout_ms)
        if reached < self._wait_replicas:
            raise StoreUnavailable(
                f"job {job_id} is stored, but only {reached} of {self._wait_replicas} replicas "
                "have it; submit it again under the same id or idempotency key"
            )
        return reply

    def read(self, job_id: str) -> JobView:
        """See ``JobStore.read``."""
        key = self._keys(job_id).job(job_id)
        with translated(self._where):
            raw = self._redis.hgetall(key)
        if not raw:
            raise not_found(job_id)
        return read_record(job_id, raw)

    def messages(self, job_id: str, start: int = 0) -> list[dict[str, Any]]:
        """See ``JobStore.messages``."""
        if not JOB_ID_PATTERN.fullmatch(job_id):
            return []
        key = self._keys(job_id).messages(job_id)
        with translated(self._where):
            found = self._redis.lrange(key, start, -1)
        return [read_message(job_id, start + n, item) for n, item in enumerate(found)]

    def events(
        self, job_id: str, after: str = "0", count: int = 1000, block_s: float = 0.0
    ) -> list[Event]:
        """See ``JobStore.events``. ``block_s`` is cut to two seconds a call: ask again."""
        check_offset(after)
        if count < 1 or not JOB_ID_PATTERN.fullmatch(job_id):
            return []
        entries = self._stream(self._keys(job_id).trace(job_id), after, count, block_s)
        return [read_event(job_id, event_id, fields) for event_id, fields in entries]

    def live(
        self, job_id: str, after: str = "0", count: int = 1000, block_s: float = 0.0
    ) -> list[LiveRecord]:
        """See ``JobStore.live``. ``block_s`` is cut to two seconds a call: ask again."""
        check_offset(after)
        if count < 1 or not JOB_ID_PATTERN.fullmatch(job_id):
            return []
        entries = self._stream(self._keys(job_id).live(job_id), after, count, block_s)
        return [read_live(job_id, record_id, fields) for record_id, fields in entries]

    def _stream(self, key: str, after: str, count: int, block_s: float) -> list[Any]:
        """Entries of a stream behind an offset; waits for the first."""
        block_ms = int(min(block_s, 2.0) * 1000) or None
        with translated(self._where):
            reply = self._redis.xread({key: after}, count=count, block=block_ms)
        return reply[0][1] if reply else []

    def signal(
        self,
        job_id: str,
        pause_id: str,
        signal: Signal,
        signal_id: str,
        labels: Collection[str] | None = None,
    ) -> None:
        """See ``JobStore.signal``."""
        args: list[Argument] = [
            job_id,
            pause_id,
            seal(signal.model_dump_json(), job_id, "signal"),
            signal.kind,
            signal.by,
            signal_id,
            FIRST_HINT_GRACE_MS,
            "" if labels is None else dumps(sorted(labels)),
            stored_outcome(cancelled_outcome(signal.by, signal.note), job_id),
        ]
        reply = self._run("signal", self._keys(job_id).of_telling(job_id), args)
        answer = [item.decode() for item in reply]
        if answer[0] != "ok":
            raise refusal(job_id, pause_id, signal.kind, *answer)

    def cancel(self, job_id: str, by: str = "", note: str = "") -> Cancelled:
        """See ``JobStore.cancel``."""
        outcome = stored_outcome(cancelled_outcome(by, note), job_id)
        request = hide({"by": by, "note": note}, ("by",), job_id, TRACE)
        args: list[Argument] = [job_id, request, outcome]
        reply = self._run("cancel", self._keys(job_id).of_telling(job_id), args)
        match [item.decode() for item in reply]:
            case ["missing"]:
                raise not_found(job_id)
            case ["ended", status]:
                return Cancelled(JobStatus(status), pending=False)
            case ["requested"]:
                return Cancelled(JobStatus.RUNNING, pending=True)
        return Cancelled(JobStatus.CANCELLED, pending=False)

    def list_jobs(
        self, status: JobStatus, limit: int = 100, newest_first: bool = False
    ) -> list[JobView]:
        """See ``JobStore.list_jobs``."""
        if limit < 1:
            return []
        return list(self.jobs(status, limit=limit, newest_first=newest_first))

    def count(self, status: JobStatus) -> int:
        """See ``JobStore.count``."""
        with translated(self._where):
            return sum(int(self._redis.zcard(keys.index(status))) for keys in self._partitions)

    def agents(self) -> list[AgentInfo]:
        """See ``JobStore.agents``."""
        with translated(self._where):
            raw = pairs(item for pair in self._redis.hgetall(AGENTS).items() for item in pair)
        return [AgentInfo.model_validate_json(raw[name]) for name in sorted(raw)]
