"""``submit``: accepted jobs a second, one by one and in bulk. Nobody runs them.

Floor: sending empty Celery tasks, which are nowhere but in the broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from celery import Celery

from api_client.client import AgentClient
from worker.bench import plain
from worker.bench.agents import stepping
from worker.bench.crew import callers
from worker.bench.load import STEPPING
from worker.bench.measuring import Row, in_turns, row
from worker.bench.options import Options
from worker.bench.room import FSYNCS, Room, room
from worker.store.redis import RedisCheckpointStore

JOBS, QUICK_JOBS = 2000, 300
INPUT = "Where is order 1187?"


def measure(options: Options, say: Callable[[str], None]) -> list[Row]:
    """A row for each way to submit and each ``appendfsync``.

    Raises:
        EmbeddedServerError: there is no server to measure on.
    """
    jobs = QUICK_JOBS if options.quick else JOBS
    rows = []
    for fsync in FSYNCS:
        with room(fsync) as here, callers(here) as (app, client):
            for how, submit in _WAYS.items():
                say(f"submit: {jobs} jobs, {how}, appendfsync {fsync}")
                floors, values = in_turns(
                    options.samples,
                    partial(_rate, here, partial(_send, app, jobs), jobs),
                    partial(_rate, here, partial(submit, client, jobs), jobs),
                )
                rows.append(row(floors, values, how=how, jobs=jobs, fsync=fsync))
    return rows


def _rate(here: Room, act: Callable[[], object], jobs: int) -> float:
    """Jobs a second, on an emptied server that knows the agent."""
    here.empty()
    RedisCheckpointStore(here.redis).announce([stepping.info()])
    begin = time.perf_counter()
    act()
    return jobs / (time.perf_counter() - begin)


def _send(app: Celery, jobs: int) -> None:
    task = app.tasks[plain.TASK]
    for _ in range(jobs):
        task.apply_async()


def _one_by_one(client: AgentClient, jobs: int) -> None:
    for _ in range(jobs):
        client.submit(STEPPING, INPUT)


def _in_bulk(client: AgentClient, jobs: int) -> None:
    client.submit_many(STEPPING, [INPUT] * jobs)


_WAYS: dict[str, Callable[[AgentClient, int], None]] = {"single": _one_by_one, "bulk": _in_bulk}
