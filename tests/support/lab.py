"""One acceptance test's surroundings: a store, workers, a ledger, gates, a client.

The caller's side is twofold: ``client`` is ours, ``plain`` is a Celery app without a line of
ours, as a service has it that knows nothing but Celery.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from celery.backends.redis import RedisBackend
from celery.result import AsyncResult
from celery.states import READY_STATES

from api_client import AgentClient
from api_client.contract import Event, JobView
from api_client.hints import send_hint
from api_client.keys import Keys
from api_client.redis_store import RedisJobStore
from tests.support.crashes import has_died, plan_crash
from tests.support.nursery import Nursery
from tests.support.workers import START_TIMEOUT_S, Ledger, RunningWorker, eventually

APP = "tests.support.lab_app"


class Lab:
    """Everything a test needs to see what real workers do.

    Args:
        folder: for ledger, gates and plans; empty.
        broker_url: if that is not the Redis of the store.
        conf: further settings of Celery, for workers and callers.
        env: further environment variables of workers.
    """

    def __init__(
        self,
        nursery: Nursery,
        url: str,
        folder: Path,
        *,
        broker_url: str = "",
        conf: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.url = url
        self.broker_url = broker_url or url
        self.conf = dict(conf or {})
        self.redis = redis.Redis.from_url(url)
        self.store = RedisJobStore.from_url(url)
        self.client = AgentClient(url, broker_url=broker_url or None, store=self.store)
        self.plain = plain_app(url, broker_url)
        self.plain.conf.update(self.conf)
        self.ledger = Ledger(folder / "ledger")
        self.states = States(url)
        self.nursery = nursery
        self._gates = folder / "gates"
        self._crashes = folder / "crashes"
        self._workers: list[RunningWorker] = []
        self._gates.mkdir()
        self._crashes.mkdir()
        self.env = {
            "TEST_LEDGER": str(self.ledger.path),
            "TEST_GATES": str(self._gates),
            "TEST_CRASHES": str(self._crashes),
            "TEST_CONF": json.dumps(self.conf),
            "STEPKEEPER_BROKER_URL": broker_url,
            **(env or {}),
        }

    # --- workers ---------------------------------------------------------------------------

    def start(self, name: str = "w1@test", *, env: Any = None, **options: Any) -> RunningWorker:
        """A worker that is starting."""
        worker = self.nursery.start(
            self.url, app=APP, name=name, env={**self.env, **(env or {})}, **options
        )
        self._workers.append(worker)
        return worker

    def worker(self, name: str = "w1@test", **options: Any) -> RunningWorker:
        """A worker that takes messages."""
        return self.start(name, **options).wait_ready()

    @contextmanager
    def supervised(self, name: str = "w1@test", **options: Any) -> Iterator[Supervisor]:
        """A worker that is started again, under its name, whenever it dies."""
        supervisor = Supervisor(lambda: self.start(name, **options))
        try:
            yield supervisor
        finally:
            supervisor.end()
            self.close()

    def close(self) -> None:
        """Kill every worker, and let go of the store, which may end now."""
        for worker in list(self._workers):
            worker.kill()
        let_go_of_results(self.plain)
        self.plain.close()
        self.states.close()
        self.redis.close()

    # --- jobs ------------------------------------------------------------------------------

    def send(self, words: str, task_id: str | None = None, **options: Any) -> AsyncResult[Any]:
        """Submit by nothing but Celery."""
        task_id = task_id or str(uuid.uuid4())
        return self.plain.send_task("agent.plan", args=[words], task_id=task_id, **options)

    def submit(self, words: str, **options: Any) -> str:
        """Submit by our client."""
        return self.client.submit("plan", words, check_agent=False, **options)

    def hint(self, job_id: str) -> None:
        """Send one more message for a job, as a broker that doubles messages would."""
        send_hint(self.plain, self.client.get(job_id).spec)

    def wait_heard(self) -> None:
        """Wait until a worker has heard every broadcast before this."""
        with self.plain.connection_for_write() as connection:
            assert self.plain.control.broadcast(
                "ping", reply=True, limit=1, timeout=30, connection=connection
            )

    def crash(
        self, job_id: str, when: str, what: str, *, number: int = 1, target: str = "process"
    ) -> None:
        """Plan a SIGKILL, see ``tests.support.crashes``."""
        plan_crash(self._crashes, job_id, when, what, number=number, target=target)

    def has_died(self, job_id: str) -> bool:
        """Whether the planned SIGKILL has happened."""
        return has_died(self._crashes, job_id)

    @contextmanager
    def shut(self, gate: str) -> Iterator[None]:
        """Hold a gate shut: ``model-TAG-STEP``, or ``TOOL-TAG-STEP``."""
        self.hold(gate)
        try:
            yield
        finally:
            self.open(gate)

    def hold(self, gate: str) -> None:
        """Shut a gate."""
        (self._gates / gate).touch()

    def open(self, gate: str) -> None:
        """Open a gate again."""
        (self._gates / gate).unlink(missing_ok=True)

    def wait_gate(self, gate: str, count: int = 1) -> None:
        """Wait until somebody stands at the gate."""
        self.ledger.wait("gate", count, name=gate)

    # --- looking ---------------------------------------------------------------------------

    def view(self, job_id: str) -> JobView:
        """Where the job stands."""
        return self.client.get(job_id)

    def events(self, job_id: str, kind: str = "") -> list[Event]:
        """The records of one kind, or all, in the job's trace."""
        return [event for event in self.client.trace(job_id) if kind in ("", event.kind)]

    def record(self, job_id: str) -> dict[str, Any]:
        """All that the store holds of a job, to compare it with what it held before.

        Without the expiry of its lease: that moves while the job runs.
        """
        record, messages, trace = Keys(0).of_job(job_id)
        fields: Any = self.redis.hgetall(record)
        fields.pop(b"lease", None)
        return {
            "record": fields,
            "messages": self.redis.lrange(messages, 0, -1),
            "trace": self.redis.xrange(trace),
        }

    def lease(self, job_id: str) -> int:
        """When the job's lease expires, in milliseconds of Redis's clock; 0 for none."""
        raw: Any = self.redis.hget(Keys(0).job(job_id), "lease")
        return int(raw or 0)

    def wait_status(self, job_id: str, *statuses: str, timeout_s: float = 30) -> JobView:
        """Wait until the job has one of these statuses, or ``"ended"``."""
        what = " or ".join(statuses)
        return self.wait_view(job_id, lambda view: _is_one_of(view, statuses), what, timeout_s)

    def wait_view(
        self, job_id: str, check: Callable[[JobView], bool], what: str, timeout_s: float = 30
    ) -> JobView:
        """Wait until what can be seen of the job satisfies ``check``."""

        def seen() -> JobView | None:
            view = self._known(job_id)
            return view if view is not None and check(view) else None

        view: JobView = eventually(seen, f"job {job_id}: {what}", timeout_s)
        return view

    def _known(self, job_id: str) -> JobView | None:
        """A bare message's job is unknown until a worker has taken the message up."""
        known = self.redis.exists(Keys(0).job(job_id))
        return self.client.get(job_id) if known else None

    def wait_event(self, job_id: str, kind: str, count: int = 1, timeout_s: float = 30) -> Event:
        """Wait until the trace holds so many records of this kind; returns the last of them."""
        found: list[Event] = eventually(
            lambda: len(events := self.events(job_id, kind)) >= count and events,
            f"{count} times {kind} in the trace of {job_id}",
            timeout_s,
        )
        return found[count - 1]

    def wait_states(self, job_id: str) -> list[str]:
        """The states that Celery stored for a job, up to its final one."""
        found: list[str] = eventually(
            lambda: READY_STATES.intersection(seen := self.states.of(job_id)) and seen,
            f"the final state of {job_id} is told",
        )
        return found

    def wait_published(self, job_id: str, timeout_s: float = 30) -> JobView:
        """Wait until the job's end has been published; returns what is stored of it."""
        return self.wait_view(job_id, lambda view: view.published, "published", timeout_s)


class Supervisor:
    """Starts a worker, and again whenever it has died."""

    def __init__(self, start: Callable[[], RunningWorker]) -> None:
        self._start = start
        self._over = False
        self._changed = threading.Condition()
        self.starts: list[RunningWorker] = [start()]
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self.wait_ready(1)

    def _watch(self) -> None:
        while True:
            self.starts[-1].wait_dead(timeout_s=3600)
            with self._changed:
                if self._over:
                    return
                self.starts.append(self._start())
                self._changed.notify_all()

    def wait_ready(self, number: int) -> RunningWorker:
        """Wait until the worker has been started so many times, and takes messages."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.starts) >= number, START_TIMEOUT_S):
                raise AssertionError(f"started {len(self.starts)} times only, not {number}")
        return self.starts[number - 1].wait_ready()

    def end(self) -> None:
        """Kill the worker for good."""
        with self._changed:
            self._over = True
        self.starts[-1].kill()
        self._thread.join()


def _is_one_of(view: JobView, statuses: tuple[str, ...]) -> bool:
    return view.status in statuses or ("ended" in statuses and view.status.ended)


def let_go_of_results(app: Celery) -> None:
    """Close what an app holds of a result backend on Redis, whose server may end now."""
    if not isinstance(app.backend, RedisBackend):
        return
    backend: Any = app.backend
    backend.result_consumer.stop()
    # or else results would, when they are collected, unsubscribe from a server that has gone
    backend.remove_pending_result = lambda _result: None
    backend.client.close()


def plain_app(url: str, broker_url: str = "") -> Celery:
    """A Celery app as any service has it: it knows names of tasks, and no code of ours."""
    app = Celery("plain", broker=broker_url or url, backend=url, set_as_current=False)
    app.conf.broker_connection_retry_on_startup = True
    return app


def _untyped_client(url: str) -> Any:
    """A Redis client whose replies have no types."""
    return redis.Redis.from_url(url)


class States:
    """Every state that is stored in Celery's result backend, in order, for all tasks."""

    def __init__(self, url: str) -> None:
        self._redis = _untyped_client(url)  # closes its connections when it is collected
        self._pubsub = self._redis.pubsub()
        self._pubsub.psubscribe("celery-task-meta-*")
        self._pubsub.get_message(timeout=10)  # that we are subscribed
        self._seen: list[tuple[str, str]] = []

    def close(self) -> None:
        """Listen no longer."""
        self._pubsub.close()
        self._redis.close()

    def of(self, job_id: str) -> list[str]:
        """The states of one task so far."""
        while (message := self._pubsub.get_message(timeout=0)) is not None:
            if message["type"] == "pmessage":
                meta = json.loads(message["data"])
                self._seen.append((meta["task_id"], meta["status"]))
        return [state for task_id, state in self._seen if task_id == job_id]
