"""Tenants: what each may have, and how much of it each uses.

Jobs that name a tenant take turns: see "Tenants take turns" in ``docs/architecture.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from api_client.connection import Client, translated
from api_client.contract import MAX_TENANT_CHARACTERS, JobSpec, JobStatus
from api_client.errors import InvalidInput, shorten
from api_client.keys import Keys
from api_client.records import one_line
from api_client.scripts import Argument, Scripts
from api_client.shapes import Contract

_SCRIPTS = Scripts("api_client")

EVERY_TENANT = "*"
"""The name under which the policy stands of each tenant that has none of its own."""

EVERYBODY = ""
"""The name of the backlog cap of the whole store, jobs without a tenant included."""

RANKS = {"high": 0, "normal": 3, "low": 6}
"""Priorities as numbers: those of Celery on Redis, where 0 comes first."""

DAY_MS = 86_400_000


class TenantPolicy(Contract):
    """What a tenant may have.

    Attributes:
        weight: its share of the steps, against the weights of those that wait beside it.
        concurrency: jobs that may run at once, over all workers; ``None``: no limit.
        backlog: jobs that may wait to run; ``None``: no limit.
    """

    model_config = ConfigDict(extra="forbid")

    weight: float = Field(default=1.0, ge=0.001, le=1000, allow_inf_nan=False)
    concurrency: int | None = Field(default=None, ge=1, le=10**6)
    backlog: int | None = Field(default=None, ge=1, le=10**9)


DEFAULT_POLICY = TenantPolicy()


class Tenant(Contract):
    """A tenant as it stands.

    Attributes:
        own: the policy is its own, and not that of ``*``.
        running: jobs that workers hold.
        ready: jobs that wait for their turn, or are on their way to a worker.
        waiting: jobs that wait for a time: delayed, or for a model.
        paused: jobs that wait for a person.
        steps: used today and yesterday (UTC).
    """

    name: str
    policy: TenantPolicy = DEFAULT_POLICY
    own: bool = False
    running: int = 0
    ready: int = 0
    waiting: int = 0
    paused: int = 0
    steps: int = 0


def make_policy(name: str, changes: Mapping[str, Any], old: TenantPolicy) -> TenantPolicy:
    """A checked policy: an old one with changes.

    Raises:
        InvalidInput: names the tenant, the field, the value and what is wrong.
    """
    check_name(name)
    if name == EVERYBODY and set(changes) - {"backlog"}:
        raise InvalidInput("the whole store has a backlog cap only; name a tenant, or * for each")
    try:
        return TenantPolicy.model_validate({**old.model_dump(), **changes})
    except ValidationError as error:
        raise InvalidInput(f"tenant {shorten(name)}: {one_line(error)}") from None


def check_name(name: str) -> None:
    """Refuse what cannot be a tenant's name.

    Raises:
        InvalidInput: it is too long, or cannot be stored.
    """
    if len(name) > MAX_TENANT_CHARACTERS:
        raise InvalidInput(f"tenant {shorten(name)}: at most {MAX_TENANT_CHARACTERS} characters")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"tenant {shorten(name)}: it holds half of a surrogate pair") from None


def turn_of(spec: JobSpec) -> list[Argument]:
    """What the scripts that accept a job are told of its turn: its queue, its rank."""
    if not spec.tenant:
        return ["", ""]
    queue = spec.message.get("queue") or spec.message.get("routing_key") or ""
    return [str(queue), RANKS.get(spec.priority, "")]


def shares_of(limit: int | None, partitions: int) -> list[int]:
    """A limit divided among partitions, at least 1 for each; 0 is none."""
    if limit is None:
        return [0] * partitions
    return [max(1, limit // partitions + (n < limit % partitions)) for n in range(partitions)]


class RedisTenants:
    """Mixed into ``RedisJobStore``, which has the connection."""

    _redis: Client
    _where: str
    _partitions: tuple[Keys, ...]

    def _run(
        self,
        name: str,
        keys: Sequence[str],
        args: Sequence[Argument],
        scripts: Scripts = _SCRIPTS,
    ) -> Any:
        raise NotImplementedError

    def policies(self) -> dict[str, TenantPolicy]:
        """See ``JobStore.policies``."""
        with translated(self._where):
            raw = self._redis.hgetall(self._partitions[0].policies)
        return {name.decode(): _read_policy(text.decode()) for name, text in raw.items()}

    def set_policy(self, name: str, policy: TenantPolicy | None) -> None:
        """See ``JobStore.set_policy``."""
        check_name(name)
        many = len(self._partitions)
        given = policy or DEFAULT_POLICY
        concurrency, backlog = shares_of(given.concurrency, many), shares_of(given.backlog, many)
        for keys, jobs, waiting in zip(self._partitions, concurrency, backlog, strict=True):
            text = f"{given.weight!r} {jobs} {waiting} {given.model_dump_json()}"
            self._run("policy", [keys.policies], [name, text if policy else ""])

    def tenants(self) -> list[Tenant]:
        """See ``JobStore.tenants``."""
        policies = self.policies()
        found = _Counts()
        with translated(self._where):
            for keys in self._partitions:
                self._count_turns(keys, found)
            names = sorted({*found.names, *policies} - {EVERYBODY, EVERY_TENANT})
            listed = self._count_lists(names)
        return [_tenant(name, policies, found, listed) for name in names]

    def _count_turns(self, keys: Keys, found: _Counts) -> None:
        seconds, _ = self._redis.time()
        day = seconds * 1000 // DAY_MS
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.hgetall(keys.counts)
        for each in (day, day - 1):
            pipeline.hgetall(keys.used(each))
        counts, *used = pipeline.execute()
        for field, value in counts.items():
            kind, _, name = field.decode().partition(":")
            found.add(kind, name, int(value))
        for steps in used:
            for tenant, value in steps.items():
                found.add("steps", tenant.decode(), int(value))

    def _count_lists(self, names: Iterable[str]) -> Counter[tuple[str, str]]:
        """Jobs by tenant and status, from the lists of their statuses."""
        asked = [(name, status) for name in names for status in _LISTED]
        found: Counter[tuple[str, str]] = Counter()
        for keys in self._partitions:
            pipeline = self._redis.pipeline(transaction=False)
            for name, status in asked:
                pipeline.zcard(keys.facet(status, f"tenant:{name}"))
            for key, value in zip(asked, pipeline.execute(), strict=True):
                found[key] += int(value)
        return found


_LISTED = (JobStatus.QUEUED, JobStatus.WAITING, JobStatus.PAUSED)


class _Counts:
    """What the counters of the turns say, summed over partitions."""

    def __init__(self) -> None:
        self.by: Counter[tuple[str, str]] = Counter()
        self.names: set[str] = set()

    def add(self, kind: str, name: str, value: int) -> None:
        self.by[kind, name] += value
        if kind in ("ready", "hinted", "running", "steps"):  # the others count lanes
            self.names.add(name)


def _tenant(
    name: str,
    policies: Mapping[str, TenantPolicy],
    found: _Counts,
    listed: Mapping[tuple[str, str], int],
) -> Tenant:
    return Tenant(
        name=name,
        policy=policies.get(name) or policies.get(EVERY_TENANT) or DEFAULT_POLICY,
        own=name in policies,
        running=found.by["running", name],
        ready=listed[name, JobStatus.QUEUED],
        waiting=listed[name, JobStatus.WAITING],
        paused=listed[name, JobStatus.PAUSED],
        steps=found.by["steps", name],
    )


def _read_policy(text: str) -> TenantPolicy:
    return TenantPolicy.model_validate_json(text.split(" ", 3)[3])
