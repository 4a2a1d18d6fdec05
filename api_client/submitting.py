"""Submitting jobs: one, or many at once."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from api_client.contract import AgentInfo, JobSpec, job_id_for_key
from api_client.desk import Desk
from api_client.errors import InvalidInput, UnknownAgent, shorten
from api_client.specs import check_same, delay_ms, make_spec
from api_client.store import Created
from api_client.tracing import trace_headers

AT_ONCE = 8
"""Jobs of one call that are on their way to Redis at the same time."""


@dataclass(frozen=True, slots=True)
class _Common:
    """What all jobs of one call share."""

    agent: str
    tenant: str
    message: Mapping[str, Any]
    fields: Mapping[str, Any]

    def spec(self, given: Any, key: str | None) -> JobSpec:
        """The job for one input."""
        job_id = str(uuid.uuid4()) if key is None else job_id_for_key(self.tenant, key)
        return make_spec(
            job_id=job_id,
            agent=self.agent,
            input=given,
            tenant=self.tenant,
            message=dict(self.message),
            **self.fields,
        )


class Submitter(Desk):
    """Mixed into ``AgentClient``, which has the store and the broker."""

    _queue: str
    _at_once = AT_ONCE

    def submit(
        self,
        agent: str,
        input: Any,
        *,
        idempotency_key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tenant: str = "",
        labels: Sequence[str] = (),
        retention_s: int | None = None,
        delay_s: float = 0.0,
        priority: int | str | None = None,
        check_agent: bool = True,
    ) -> str:
        """Accept a job and return its id. When this returns, the job is stored.

        Args:
            input: the task, a text or another JSON value.
            idempotency_key: the same key (of one tenant) always gives the same job.
            metadata: JSON values for the agent's context; the model does not see them.
            labels: who may answer its pauses.
            retention_s: seconds to keep the job after its end.
            delay_s: seconds before which it must not start, at most ten years.
            priority: ``high``, ``normal`` or ``low``; or a number, of the Celery message alone.
            check_agent: refuse agents that no worker has announced.

        Raises:
            InvalidInput, UnknownAgent, IdempotencyConflict, BacklogFull, StorageFull,
            StoreUnavailable
        """
        common = self._common(
            agent, metadata, tenant, labels, retention_s, priority, check_agent=check_agent
        )
        spec = common.spec(input, idempotency_key)
        self._follow(spec, self._store.create(spec, delay_ms(delay_s)), hint=not delay_s)
        return spec.job_id

    def submit_many(
        self,
        agent: str,
        inputs: Iterable[Any],
        *,
        idempotency_keys: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        tenant: str = "",
        labels: Sequence[str] = (),
        retention_s: int | None = None,
        priority: int | str | None = None,
        check_agent: bool = True,
    ) -> list[str]:
        """Accept many jobs of one agent, several at a time; their ids in the order of the inputs.

        The arguments are those of ``submit``, and hold for all of the jobs.

        Args:
            idempotency_keys: one for each input. With them the whole may be sent again if it broke
                off: what was accepted before is accepted once.

        Raises:
            InvalidInput, UnknownAgent: nothing was accepted.
            IdempotencyConflict, BacklogFull, StorageFull, StoreUnavailable: one job was not
            accepted; all others were tried.
        """
        common = self._common(
            agent, metadata, tenant, labels, retention_s, priority, check_agent=check_agent
        )
        given = list(inputs)
        keys = [None] * len(given) if idempotency_keys is None else list(idempotency_keys)
        if len(keys) != len(given):
            raise InvalidInput(
                f"idempotency_keys: {len(keys)} keys for {len(given)} inputs; give one for each"
            )
        specs = [common.spec(one, key) for one, key in zip(given, keys, strict=True)]
        self._accept(specs)
        return [spec.job_id for spec in specs]

    def _accept(self, specs: Sequence[JobSpec]) -> None:
        """Store and hint each, several at a time; the first error is raised when all were tried."""
        with ThreadPoolExecutor(self._at_once, "stepkeeper-submit") as threads:
            done = [threads.submit(self._accept_one, spec) for spec in specs]
        errors = [error for error in (one.exception() for one in done) if error is not None]
        if errors:
            raise errors[0]

    def _accept_one(self, spec: JobSpec) -> None:
        self._follow(spec, self._store.create(spec))

    def _follow(self, spec: JobSpec, created: Created, *, hint: bool = True) -> None:
        """A job is stored: the same as was asked for? Then tell the workers."""
        if not created.new:
            check_same(spec, created.spec)
        if hint and not created.held:
            self._hint(created.spec)

    def _common(
        self,
        agent: str,
        metadata: Mapping[str, Any] | None,
        tenant: str,
        labels: Sequence[str],
        retention_s: int | None,
        priority: int | str | None,
        *,
        check_agent: bool,
    ) -> _Common:
        announced = self._announced(agent) if check_agent else None
        message: dict[str, Any] = {}
        queue = self._queue or (announced.queue if announced else "")
        if queue:
            message["queue"] = queue
        if isinstance(priority, int):
            message["priority"] = priority
        if headers := trace_headers():
            message["headers"] = headers
        fields: dict[str, Any] = {
            "metadata": metadata,
            "labels": labels,
            "priority": None if isinstance(priority, int) else priority,
        }
        if retention_s is not None:
            fields["retention_s"] = retention_s
        return _Common(agent, tenant, message, fields)

    def _announced(self, agent: str) -> AgentInfo:
        known = {info.name: info for info in self._store.agents()}
        if agent in known:
            return known[agent]
        names = ", ".join(known) or "none yet"
        raise UnknownAgent(
            f"unknown agent {shorten(agent)}; workers have announced: {names}. Start a worker "
            "that has it (STEPKEEPER_AGENTS), or submit without the check"
        )
