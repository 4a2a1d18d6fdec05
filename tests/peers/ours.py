"""The same figures of Stepkeeper: on real workers, and of one job in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from celery import Celery

from api_client.client import AgentClient
from tests.peers.script import Asked, Figures, check, measure, timed, versions_of
from worker.bench.counting import stored_bytes
from worker.bench.crew import Crew, callers, crew
from worker.bench.load import STEPPING
from worker.bench.machine import server_version
from worker.bench.measuring import ratio
from worker.bench.room import Room, room
from worker.bench.stepping import stepper
from worker.bench.throughput import LOOK_EVERY_S, WITHIN_S, Shape
from worker.embedded import Fsync

SHAPE = Shape("threads", 2, 8)
"""The shape of workers that does most steps here; see ``stepkeeper bench throughput``."""


class OnWorkers:
    """Submits jobs to workers, as an application does."""

    def __init__(self, here: Room, workers: Crew, app: Celery, client: AgentClient) -> None:
        self._here = here
        self._workers = workers
        self._app = app
        self._client = client

    def one(self, steps: int) -> int:
        """Submit a job and wait for its result; returns how many messages it then has."""
        job_id = self._client.submit(STEPPING, str(steps))
        self._app.AsyncResult(job_id).get(timeout=WITHIN_S)
        return self._messages(job_id, steps)

    def many(self, jobs: int, steps: int) -> float:
        """Submit so many and wait for as many results; returns the seconds."""
        self._here.forget_results()
        job_ids: list[str] = []

        def run() -> None:
            job_ids.extend(self._client.submit(STEPPING, str(steps)) for _ in range(jobs))
            deadline = time.perf_counter() + WITHIN_S
            while self._here.results() < jobs:
                self._workers.check_within(deadline)
                time.sleep(LOOK_EVERY_S)

        seconds = timed(run)
        for job_id in job_ids:
            check(self._messages(job_id, steps), steps)
        return seconds

    def stored(self) -> int:
        """The memory of all keys."""
        return stored_bytes(self._here.redis)

    def durability(self) -> str:
        """When the server syncs its append-only file."""
        return _durability(self._here)

    def versions(self) -> dict[str, str]:
        """Of the packages and the server."""
        return _versions(self._here)

    def _messages(self, job_id: str, steps: int) -> int:
        """Without the agent's own, which others do not have; reads the last ones only."""
        return 2 * steps + len(self._client.messages(job_id, 2 * steps)) - 1


def measure_on_workers(asked: Asked, fsync: Fsync) -> Figures:
    """Jobs submitted to the workers of ``SHAPE``.

    Raises:
        EmbeddedServerError, WorkerMissing, NotDone
    """
    with _on_workers(fsync) as peer:
        return measure(peer, asked)


def measure_in_process(asked: Asked, fsync: Fsync) -> Figures:
    """Single jobs in this process, on the slices and the store that workers use.

    Raises:
        EmbeddedServerError, JobFailed
    """
    one, stored = {}, {}
    with room(fsync) as here, stepper(here) as steps:
        steps.run(max(asked.one))  # loads the scripts
        for k in asked.one:
            one[k] = ratio(k, steps.run(k).seconds)
            stored[k] = stored_bytes(here.redis)
        return Figures(one, stored, None, _durability(here), _versions(here))


@contextmanager
def _on_workers(fsync: Fsync) -> Iterator[OnWorkers]:
    settings = {"STEPKEEPER_IN_FLIGHT": str(SHAPE.in_flight)}
    with room(fsync) as here, crew(here, **settings) as workers, callers(here) as (app, client):
        names = [f"ours{number}" for number in range(SHAPE.workers)]
        for name in names:
            workers.start(name, SHAPE.pool, SHAPE.slots)
        workers.wait(app, names)
        yield OnWorkers(here, workers, app, client)


def _durability(here: Room) -> str:
    return f"appendfsync {here.redis.config_get('appendfsync')['appendfsync']}"


def _versions(here: Room) -> dict[str, str]:
    name, version = server_version(here.redis).split()
    return versions_of("stepkeeper", "celery") | {name: version}
