"""Workers in processes of their own: ours, and plain Celery's for the floors."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from celery import Celery

from api_client.client import AgentClient
from api_client.errors import StepkeeperError
from worker.bench import plain
from worker.bench.room import Room
from worker.guarded import GuardedProcess, environment_without

Pool = Literal["threads", "prefork"]

READY_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.2
_FOREIGN = ("STEPKEEPER_", "CELERY_", "OTEL_", "LLM_")


class WorkerMissing(StepkeeperError):
    """A worker of the benchmark did not start, or ended by itself."""


class Crew:
    """The workers on one server. All are dead when the block that it opens has ended.

    Args:
        here: their server is broker, result backend and store.
        settings: the environment of ours, beyond where the server is.
    """

    def __init__(self, here: Room, **settings: str) -> None:
        self._here = here
        self._env = environment_without(*_FOREIGN) | {
            plain.BROKER: here.url,
            plain.RESULTS: here.results_url,
            "STEPKEEPER_REDIS_URL": here.url,
            "STEPKEEPER_RESULT_BACKEND": here.results_url,
            "STEPKEEPER_AGENTS": "worker.bench.agents",
            **settings,
        }
        self._workers: dict[str, GuardedProcess] = {}

    def __getitem__(self, node: str) -> GuardedProcess:
        """The worker of a node name that runs, or ran last."""
        return self._workers[node]

    def start(self, node: str, pool: Pool = "threads", slots: int = 16) -> GuardedProcess:
        """Start one of ours; it takes a moment until it takes messages."""
        return self._start("worker.app", node, pool, slots)

    def start_plain(self, node: str, pool: Pool = "threads", slots: int = 16) -> GuardedProcess:
        """Start one of Celery that runs nothing but empty tasks, with Celery's own settings."""
        return self._start(plain.__name__, node, pool, slots, f"--queues={plain.QUEUE}")

    def _start(self, app: str, node: str, pool: Pool, slots: int, *more: str) -> GuardedProcess:
        command = [
            *(sys.executable, "-m", "celery", "-A", app, "worker", f"--hostname={node}@bench"),
            *(f"--pool={pool}", f"--concurrency={slots}", "--loglevel=WARNING", *more),
        ]
        log = self._here.folder / f"{node}.log"
        self._workers[node] = GuardedProcess(command, self._env, log, self._here.folder)
        return self._workers[node]

    def wait(self, app: Celery, nodes: Sequence[str]) -> None:
        """Wait until workers of these names answer.

        Raises:
            WorkerMissing: one has ended, or does not answer in time.
        """
        missing = {f"{node}@bench" for node in nodes}
        deadline = time.perf_counter() + READY_WITHIN_S
        while missing:
            self.check_within(deadline)
            replies = app.control.ping(list(missing), timeout=_LOOK_EVERY_S, limit=len(missing))
            missing -= {name for reply in replies or [] for name in reply}

    def check(self) -> None:
        """Look whether all live.

        Raises:
            WorkerMissing: one has ended by itself; says what it printed last.
        """
        for node, process in self._workers.items():
            if process.code is not None:
                words = process.last_words(1)
                raise WorkerMissing(f"worker {node} ended with code {process.code}: {words}")

    def check_within(self, deadline: float) -> None:
        """The same, and whether there is time left until a moment of ``time.perf_counter``.

        Raises:
            WorkerMissing: one has ended by itself, or there is none.
        """
        self.check()
        if time.perf_counter() > deadline:
            raise WorkerMissing(f"workers {', '.join(self._workers)} do not finish in time")

    def forget(self, node: str) -> None:
        """One has been killed on purpose."""
        del self._workers[node]

    def kill(self) -> None:
        """SIGKILL all of them."""
        for process in self._workers.values():
            process.kill()
        self._workers.clear()


@contextmanager
def crew(here: Room, **settings: str) -> Iterator[Crew]:
    """A crew without workers yet; whoever starts some leaves them to it."""
    found = Crew(here, **settings)
    try:
        yield found
    finally:
        found.kill()


@contextmanager
def callers(here: Room) -> Iterator[tuple[Celery, AgentClient]]:
    """Who submits: empty tasks with Celery, jobs with our client."""
    app = plain.make_app(here.url, here.results_url)
    client = AgentClient(here.url)
    try:
        yield app, client
    finally:
        app.close()
