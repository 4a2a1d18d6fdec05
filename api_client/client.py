"""The client: submit jobs, follow them, answer them.

client = AgentClient("redis://127.0.0.1:6379/0")
job_id = client.submit("shop", "I want to return order 1187.")
print(client.wait(job_id, timeout_s=60).value)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from api_client.connection import DEFAULT_URL
from api_client.contract import (
    AgentInfo,
    Event,
    JobSpec,
    JobView,
    Outcome,
)
from api_client.deciding import parse_signal as parse_signal
from api_client.errors import (
    JobCancelled,
    JobFailed,
    StoreUnavailable,
    WaitTimeout,
)
from api_client.live import LiveRecord
from api_client.redis_store import RedisJobStore
from api_client.store import JobStore
from api_client.submitting import Submitter
from api_client.tenant_desk import TenantDesk

if TYPE_CHECKING:
    from celery import Celery

log = logging.getLogger(__name__)


class AgentClient(Submitter, TenantDesk):
    """Jobs as their callers use them.

    Args:
        url: of the store (see ``api_client.connection``).
        broker_url: of the Celery broker; the store's Redis if not given.
        app: a Celery app to send with, in place of ``broker_url``.
        store: a store to use in place of ``url``; tests pass one in memory.
        partitions: the same number as the workers have.
        timeout_s: bound on each call to Redis, in seconds.
        queue: the Celery queue to send to; what the worker announced, if not given.
        wait_replicas: Redis replicas that must hold a job before ``submit`` returns.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        broker_url: str | None = None,
        app: Celery | None = None,
        store: JobStore | None = None,
        partitions: int = 1,
        timeout_s: float = 5.0,
        queue: str = "",
        wait_replicas: int = 0,
    ) -> None:
        self._store = store or RedisJobStore.from_url(
            url, partitions=partitions, timeout_s=timeout_s, wait_replicas=wait_replicas
        )
        self._broker_url = broker_url or url
        self._app = app
        self._routes_itself = app is not None
        self._queue = queue

    # --- hinting ---------------------------------------------------------------------------

    def hint(self, spec: JobSpec) -> None:
        """Tell the workers of a job that the store has; what an operator made goes on at once."""
        self._hint(spec)

    def _hint(self, spec: JobSpec) -> None:
        """Tell the workers; a sweep does it later if the broker is away."""
        from api_client.hints import try_hint

        if self._app is None:
            self._app = _producer_app(self._broker_url)
        try_hint(self._app, spec if self._routes_itself else self._routed(spec))

    def _routed(self, spec: JobSpec) -> JobSpec:
        """The job, with the queue to which its workers' app routes it, if it names none itself."""
        if not spec.message.keys().isdisjoint(("queue", "exchange", "routing_key")):
            return spec
        try:
            known = {info.name: info.queue for info in self._store.agents()}
        except StoreUnavailable as error:
            log.warning("job %s: the queue of its workers is not known: %s", spec.job_id, error)
            return spec
        queue = self._queue or known.get(spec.agent)
        if not queue:
            return spec
        return spec.model_copy(update={"message": {**spec.message, "queue": queue}})

    # --- following -------------------------------------------------------------------------

    def get(self, job_id: str) -> JobView:
        """Where a job stands. Raises ``JobNotFound``."""
        return self._store.read(job_id)

    def wait(self, job_id: str, timeout_s: float = 60.0) -> Outcome:
        """Wait for a job's end.

        Raises:
            WaitTimeout: it has not ended within ``timeout_s`` seconds; says where it stands.
            JobNotFound
        """
        deadline = time.monotonic() + timeout_s
        after = "0"
        while True:
            view = self._store.read(job_id)
            if view.outcome is not None:
                return view.outcome
            left = deadline - time.monotonic()
            if left <= 0:
                raise WaitTimeout(f"job {job_id} is {_standing(view)} after {timeout_s:g} s")
            events = self._store.events(job_id, after, block_s=left)
            after = events[-1].id if events else after

    def result(self, job_id: str, timeout_s: float = 60.0) -> Any:
        """Wait for a job's answer, a JSON value.

        Raises:
            JobFailed, JobCancelled: it ended without one.
            WaitTimeout, JobNotFound
        """
        outcome = self.wait(job_id, timeout_s)
        if outcome.ok:
            return outcome.value
        if outcome.reason == "cancelled":
            raise JobCancelled(outcome.text)
        raise JobFailed(outcome.text, outcome.reason)

    def messages(self, job_id: str, start: int = 0) -> list[dict[str, Any]]:
        """The transcript from index ``start``, in the OpenAI chat format."""
        return self._store.messages(job_id, start)

    def trace(self, job_id: str, after: str = "0", *, follow: bool = False) -> Iterator[Event]:
        """The job's records behind the offset ``after``, oldest first.

        Args:
            follow: go on until the job has ended.
        """
        self._store.read(job_id)
        while True:
            events = self._store.events(job_id, after, block_s=1.0 if follow else 0.0)
            yield from events
            after = events[-1].id if events else after
            if not events and (not follow or self._store.read(job_id).status.ended):
                return

    def live(self, job_id: str, after: str = "0", *, follow: bool = False) -> Iterator[LiveRecord]:
        """Pieces of the model's replies as they come, of agents with ``stream=True``.

        A reader that was cut off goes on behind the last record it has seen.

        Args:
            after: the id of a record; everything that is still kept, if not given.
            follow: go on until the job has ended.
        """
        self._store.read(job_id)
        while True:
            records = self._store.live(job_id, after, block_s=1.0 if follow else 0.0)
            yield from records
            after = records[-1].id if records else after
            if not records and (not follow or self._store.read(job_id).status.ended):
                return

    def agents(self) -> Sequence[AgentInfo]:
        """The agents that workers have announced."""
        return self._store.agents()


def _standing(view: JobView) -> str:
    if view.pause is not None:
        return f"paused ({view.pause.kind}: {view.pause.question})"
    return str(view.status)


def _producer_app(broker_url: str) -> Celery:
    """An app that only sends; a broker that is away must not hold the caller up for long."""
    from celery import Celery

    from api_client.celery_urls import for_celery
    from api_client.protection import protection
    from api_client.signing import signed

    broker = for_celery(broker_url)
    sockets = {"socket_timeout": 2, "socket_connect_timeout": 2} if broker.is_redis else {}
    app = Celery("stepkeeper-client", broker=broker.url, set_as_current=False)
    app.conf.update(
        broker_connection_timeout=2,
        broker_transport_options=broker.options | sockets,
        broker_use_ssl=broker.tls,
        task_publish_retry_policy={"max_retries": 1, "interval_start": 0.1},
        **signed(protection()),
    )
    return app
