"""``recover``: from the SIGKILL of a worker to the next commit of the job that it ran.

Once by the same worker, started again under its name; once by another that is there already, when
the lease has run out. Floor: a plain Celery worker from its start to the end of its first empty
task: sooner no worker that is started again can move anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from celery import Celery

from api_client.client import AgentClient
from api_client.keys import Keys
from worker.bench import plain
from worker.bench.crew import Crew, callers, crew
from worker.bench.load import SLOW
from worker.bench.measuring import Row, in_turns, median_of, row
from worker.bench.options import Options
from worker.bench.room import Room, room

LEASE_S, QUICK_LEASE_S = 15.0, 3.0
MOVED = 5
"""Records of the trace after which a job has surely begun."""

LOOK_EVERY_S = 0.005
WITHIN_S = 120.0
ENDLESS = "1000000"


@dataclass(frozen=True, slots=True)
class _Sample:
    restarted_s: float
    taken_over_s: float


def measure(options: Options, say: Callable[[str], None]) -> list[Row]:
    """One row.

    Raises:
        EmbeddedServerError: there is no server to measure on.
        WorkerMissing: a worker did not start, or a job did not move again.
    """
    lease_s = QUICK_LEASE_S if options.quick else LEASE_S
    say(f"recover: {options.samples} times, with leases of {lease_s:g} s")
    # A job that was handed over at the end of a slice might be with the other one already.
    settings = {"STEPKEEPER_LEASE_S": str(lease_s), "STEPKEEPER_SLICE_STEPS": ENDLESS}
    with room() as here, crew(here, **settings) as workers, callers(here) as (app, client):
        floors, values = in_turns(
            options.samples,
            lambda: _plain_start(workers, app),
            lambda: _ours(here, workers, client),
        )
    taken_over_s = median_of(values, lambda sample: sample.taken_over_s)
    return [
        row(
            floors,
            [sample.restarted_s for sample in values],
            restarted_s=median_of(values, lambda sample: sample.restarted_s),
            taken_over_s=taken_over_s,
            lease_s=lease_s,
            taken_over_to_lease=taken_over_s / lease_s,
            fsync="everysec",
        )
    ]


def _plain_start(workers: Crew, app: Celery) -> float:
    begin = time.perf_counter()
    process = workers.start_plain("plain")
    app.tasks[plain.TASK].apply_async().get(timeout=WITHIN_S)
    seconds = time.perf_counter() - begin
    process.kill()
    workers.forget("plain")
    return seconds


def _ours(here: Room, workers: Crew, client: AgentClient) -> _Sample:
    """One job: killed, restarted under the same name, killed again, taken over by the other."""
    here.empty()
    workers.start("first")
    job = _Job(here, workers, client.submit(SLOW, ENDLESS, check_agent=False))
    job.wait_for_more(MOVED)
    restarted_s = job.killed("first", lambda: workers.start("first"))
    workers.start("second")
    workers.wait(plain.make_app(here.url, here.results_url), ["second"])
    taken_over_s = job.killed("first", lambda: None)
    workers.kill()
    return _Sample(restarted_s, taken_over_s)


class _Job:
    """A job that never ends, seen by the length of its trace."""

    def __init__(self, here: Room, workers: Crew, job_id: str) -> None:
        self._redis = here.redis
        self._workers = workers
        self._trace = Keys(0).trace(job_id)

    def killed(self, node: str, then: Callable[[], object]) -> float:
        """Seconds from the SIGKILL of its worker to its next record."""
        self._workers[node].kill()
        self._workers.forget(node)
        begin, length = time.perf_counter(), self._length()
        then()
        self._wait_beyond(length)
        return time.perf_counter() - begin

    def wait_for_more(self, records: int) -> None:
        """Wait until so many records have come."""
        self._wait_beyond(self._length() + records - 1)

    def _length(self) -> int:
        return int(self._redis.xlen(self._trace))

    def _wait_beyond(self, length: int) -> None:
        deadline = time.perf_counter() + WITHIN_S
        while self._length() <= length:
            self._workers.check_within(deadline)
            time.sleep(LOOK_EVERY_S)
