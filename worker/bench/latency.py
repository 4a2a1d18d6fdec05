"""``latency``: from submitting a job of one step to its result.

Floor: an empty Celery task, from ``apply_async`` to ``get``, on a worker with Celery's own settings
and a pool of the same kind and size. Beside it the same job through Celery alone, without our
client.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from celery import Celery

from api_client.client import AgentClient
from api_client.contract import task_name
from worker.bench import plain
from worker.bench.crew import callers, crew
from worker.bench.load import STEPPING
from worker.bench.measuring import Row, percentile, row
from worker.bench.options import Options
from worker.bench.room import FSYNCS, room
from worker.embedded import Fsync

CALLS = 200
QUICK_CALLS = 50
WARM_UP = 20
TIMEOUT_S = 30.0
NO_STEPS = "0"
"""The model answers at once: one step."""


def measure(options: Options, say: Callable[[str], None]) -> list[Row]:
    """A row for each ``appendfsync``.

    Raises:
        EmbeddedServerError: there is no server to measure on.
        WorkerMissing: a worker did not start.
    """
    return [_measure(options, fsync, say) for fsync in FSYNCS]


def _measure(options: Options, fsync: Fsync, say: Callable[[str], None]) -> Row:
    with room(fsync) as here, crew(here) as workers, callers(here) as (app, client):
        say(f"latency: appendfsync {fsync}")
        workers.start("ours")
        workers.start_plain("plain")
        workers.wait(app, ["ours", "plain"])
        calls = (_empty(app), _job(client), _job_by_celery(app))
        _times_ms(calls, WARM_UP)
        count = QUICK_CALLS if options.quick else CALLS
        blocks = [_times_ms(calls, count) for _ in range(options.samples)]
        return _row(blocks) | {"fsync": fsync}


def _times_ms(calls: tuple[Callable[[], Any], ...], count: int) -> list[list[float]]:
    """The milliseconds of each call, all kinds in turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(count):
        for kind, call in zip(times, calls, strict=True):
            begin = time.perf_counter()
            call()
            kind.append((time.perf_counter() - begin) * 1000)
    return times


def _row(blocks: list[list[list[float]]]) -> Row:
    empty, job, by_celery = (
        [time for block in blocks for time in block[kind]] for kind in range(3)
    )
    return row(
        [percentile(block[0], 50) for block in blocks],
        [percentile(block[1], 50) for block in blocks],
        p50_ms=percentile(job, 50),
        p95_ms=percentile(job, 95),
        p99_ms=percentile(job, 99),
        floor_p50_ms=percentile(empty, 50),
        floor_p95_ms=percentile(empty, 95),
        floor_p99_ms=percentile(empty, 99),
        celery_p50_ms=percentile(by_celery, 50),
        celery_p95_ms=percentile(by_celery, 95),
        calls=len(job),
    )


def _empty(app: Celery) -> Callable[[], Any]:
    task = app.tasks[plain.TASK]
    return lambda: task.apply_async().get(timeout=TIMEOUT_S)


def _job(client: AgentClient) -> Callable[[], Any]:
    return lambda: client.result(client.submit(STEPPING, NO_STEPS), timeout_s=TIMEOUT_S)


def _job_by_celery(app: Celery) -> Callable[[], Any]:
    name = task_name(STEPPING)
    return lambda: app.send_task(name, args=[NO_STEPS], queue="celery").get(timeout=TIMEOUT_S)
