"""``throughput``: many short jobs at once through real workers.

Floor: as many empty Celery tasks through workers with Celery's own settings, with the same pools.
The time runs from the first submission to the last result in Celery's backend.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from celery import Celery

from api_client.client import AgentClient
from worker.bench import plain
from worker.bench.crew import Crew, Pool, callers, crew
from worker.bench.load import STEPPING
from worker.bench.measuring import Row, in_turns, median_of, row
from worker.bench.options import Options
from worker.bench.room import Room, room

JOBS, QUICK_JOBS = 1000, 60
STEPS = 5
LOOK_EVERY_S = 0.01
WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Shape:
    """How a row's workers are laid out.

    Attributes:
        workers: processes that take messages; a prefork one has ``slots`` children.
        in_flight: jobs at once on the event loop of each; 0: none.
    """

    pool: Pool
    workers: int
    slots: int
    in_flight: int = 0


SHAPES = (
    Shape("threads", 1, 16),
    Shape("threads", 2, 8),
    Shape("prefork", 1, 2),
    Shape("prefork", 2, 2),
    Shape("threads", 2, 8, in_flight=500),
)
QUICK_SHAPES = (Shape("threads", 2, 8), Shape("prefork", 1, 2))


def measure(options: Options, say: Callable[[str], None]) -> list[Row]:
    """A row for each shape.

    Raises:
        EmbeddedServerError: there is no server to measure on.
        WorkerMissing: a worker did not start, or ended by itself.
    """
    jobs = QUICK_JOBS if options.quick else JOBS
    shapes = QUICK_SHAPES if options.quick else SHAPES
    return [_measure(shape, jobs, options.samples, say) for shape in shapes]


def _measure(shape: Shape, jobs: int, samples: int, say: Callable[[str], None]) -> Row:
    say(f"throughput: {jobs} jobs of {STEPS} steps, {shape.workers} workers ({shape.pool})")
    settings = {"STEPKEEPER_IN_FLIGHT": str(shape.in_flight)}
    with room() as here, crew(here, **settings) as workers, callers(here) as (app, client):
        _start(shape, workers, app)
        empty, job = _empty(app), _job(client)
        _jobs_per_s(here, workers, empty, shape.slots)
        _jobs_per_s(here, workers, job, shape.slots)
        floors, values = in_turns(
            samples,
            lambda: _jobs_per_s(here, workers, empty, jobs),
            lambda: _jobs_per_s(here, workers, job, jobs),
        )
    return _row(shape, jobs, floors, values)


def _row(shape: Shape, jobs: int, floors: list[float], values: list[float]) -> Row:
    per_s = median_of(values, float)
    # The answer is a step as well.
    steps_per_s = per_s * (STEPS + 1)
    return row(
        floors,
        values,
        pool=shape.pool,
        workers=shape.workers,
        slots=shape.slots,
        in_flight=shape.in_flight,
        jobs=jobs,
        jobs_per_s=per_s,
        steps_per_s=steps_per_s,
        steps_per_s_and_core=steps_per_s / (os.cpu_count() or 1),
        fsync="everysec",
    )


def _start(shape: Shape, workers: Crew, app: Celery) -> None:
    numbers = range(shape.workers)
    for number in numbers:
        workers.start(f"ours{number}", shape.pool, shape.slots)
        workers.start_plain(f"plain{number}", shape.pool, shape.slots)
    workers.wait(app, [f"{kind}{number}" for kind in ("ours", "plain") for number in numbers])


def _jobs_per_s(here: Room, workers: Crew, submit: Callable[[], object], jobs: int) -> float:
    """Submit so many and wait for so many results."""
    here.forget_results()
    begin = time.perf_counter()
    for _ in range(jobs):
        submit()
    while here.results() < jobs:
        workers.check_within(begin + WITHIN_S)
        time.sleep(LOOK_EVERY_S)
    return jobs / (time.perf_counter() - begin)


def _empty(app: Celery) -> Callable[[], object]:
    return partial(app.tasks[plain.TASK].apply_async)


def _job(client: AgentClient) -> Callable[[], object]:
    return lambda: client.submit(STEPPING, str(STEPS))
