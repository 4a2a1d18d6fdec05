"""Where features of Celery are tried: each broker with each pool, and workers that wait there.

A place has a store, a worker for jobs that is started again whenever it dies, one for ordinary
tasks that nobody kills, a program that submits with our package, and one without.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

from celery import Celery
from celery.canvas import Signature

from tests.support.agents import worker_agent
from tests.support.lab import APP, Lab, Supervisor, let_go_of_results
from tests.support.moving import move_time
from tests.support.nursery import Nursery
from tests.support.rabbitmq import RabbitServer
from tests.support.workers import settings
from worker.embedded import EmbeddedServer
from worker.installing import install
from worker.settings import Settings

PLACES = ("redis-threads", "redis-prefork", "rabbitmq-threads", "rabbitmq-prefork")
JOBS, TASKS = "agents", "tasks"
CONF: dict[str, Any] = {"task_routes": {"agent.*": {"queue": JOBS}}}
SLOTS = 8
"""At least one for each kind of canvas: where jobs wait at a gate, each holds one."""
LONG_MS = 60_000
"""Beyond every time that a hint is given."""


@dataclass
class Place:
    """One broker with one pool.

    Attributes:
        supervisor: of the worker that runs jobs.
    """

    name: str
    lab: Lab
    supervisor: Supervisor
    _apps: list[Celery] = field(default_factory=list)

    @cached_property
    def app(self) -> Celery:
        """A program that has taken the agent into its Celery app, and runs no worker."""
        lab = self.lab
        app = Celery("shop", broker=lab.broker_url, backend=lab.url, set_as_current=False)
        app.conf.update(accept_content=["json"], **lab.conf)
        own = Settings(redis_url=lab.url, broker_url=lab.broker_url)
        install(app, agents=[worker_agent], settings=own)
        self._apps.append(app)
        return app

    def agent(self, *args: Any, **options: Any) -> Signature[Any]:
        """``agent.plan.s(…)``, in the program that has the agent."""
        signature: Signature[Any] = self.app.tasks["agent.plan"].s(*args)
        return signature.set(**options)

    def by_name(self, *args: Any, **options: Any) -> Signature[Any]:
        """The same in a program that knows nothing but Celery."""
        return self.lab.plain.signature("agent.plan", args=args, **options)

    def task(self, name: str, *args: Any, **kwargs: Any) -> Signature[Any]:
        """An ordinary task."""
        return self.app.signature(f"lab.{name}", args=args, kwargs=kwargs, queue=TASKS)

    def noted(self, where: str) -> list[Any]:
        """What the tasks ``note`` and ``failed`` of this name were given, when all have run."""
        fence = self.task("note", where=f"fence of {where}")
        self.app.send_task("lab.note", args=["x"], kwargs=dict(fence.kwargs), queue=TASKS).get(30)
        return [entry["value"] for entry in self.lab.ledger.entries(where=where)]

    def kill(self) -> None:
        """SIGKILL the worker that runs jobs, children and all; returns when it is back."""
        starts = len(self.supervisor.starts)
        self.supervisor.starts[-1].kill()
        self.supervisor.wait_ready(starts + 1)

    def answer(self, job_id: str, value: str = "yes", *, hinted: bool = True) -> None:
        """A person answers a job's question.

        Args:
            hinted: whether the workers are told; if not, the message has been lost.
        """
        self.lab.wait_status(job_id, "paused")
        lost = patch.object(self.lab.client, "_hint")
        with nullcontext() if hinted else lost:
            self.lab.client.signal(job_id, {"kind": "answer", "value": value})

    @contextmanager
    def beat(self, schedule: dict[str, Any]) -> Iterator[None]:
        """A ``celery beat`` of the workers' app runs.

        Args:
            schedule: Celery's ``beat_schedule``.
        """
        lab = self.lab
        conf = json.dumps({**lab.conf, "beat_schedule": schedule})
        env = settings(lab.url, "tests.support.agents", 1, {**lab.env, "TEST_CONF": conf})
        kept = Path(lab.env["TEST_LEDGER"]).with_name("beat")
        beat = lab.nursery.run("beat", ["-A", APP, "beat", f"--schedule={kept}"], env)
        try:
            yield
        finally:
            beat.kill()

    @contextmanager
    def losing_hints(self) -> Iterator[None]:
        """The broker takes no hint of the program that submits, and nobody notices."""
        with patch("worker.tasks.try_hint", return_value=True):
            yield

    def pass_time(self) -> None:
        """Let so much time pass for what is stored that a sweep looks at everything."""
        move_time(self.lab.redis, LONG_MS)

    def close(self) -> None:
        """End the programs that submit."""
        for app in self._apps:
            let_go_of_results(app)
            app.close()


@dataclass(frozen=True)
class Servers:
    """What all places share.

    Args:
        rabbit: starts RabbitMQ when something first needs it.
    """

    nursery: Nursery
    valkey: EmbeddedServer
    rabbit: Callable[[], RabbitServer]
    folder: Path

    def urls(self, name: str) -> tuple[str, str]:
        """The store of a place, which no other has, and its broker."""
        broker, _, pool = name.partition("-")
        store = f"{self.valkey.url.rpartition('/')[0]}/{PLACES.index(name) + 1}"
        return store, store if broker == "redis" else self.rabbit().room(pool)


@contextmanager
def open_place(servers: Servers, name: str, conf: dict[str, Any] | None = None) -> Iterator[Place]:
    """Start the workers of a place.

    Args:
        conf: further settings of Celery.
    """
    url, broker_url = servers.urls(name)
    pool = name.partition("-")[2]
    folder = servers.folder / f"{name}-{len(list(servers.folder.iterdir()))}"
    folder.mkdir()
    lab = Lab(
        servers.nursery,
        url,
        folder,
        broker_url=broker_url,
        conf={**CONF, **(conf or {})},
        env={"TEST_NOTE_RUNS": "1", "STEPKEEPER_MAX_ATTEMPTS": "20"},
    )
    lab.redis.flushdb()
    tasks = lab.start("tasks@test", concurrency=1, options=(f"--queues={TASKS}",))
    queues = f"--queues={JOBS},second"
    with lab.supervised(f"{name}@test", pool=pool, concurrency=SLOTS, options=(queues,)) as jobs:
        tasks.wait_ready()
        place = Place(name, lab, jobs)
        try:
            yield place
        finally:
            place.close()
