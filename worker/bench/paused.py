"""``paused``: what jobs take that wait for a person, and how soon one of them goes on.

Every job is real: submitted, claimed, run to its question. Floor: the time to resume one of ten.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean

from celery import Celery

from api_client.client import AgentClient
from api_client.contract import Answer, JobSpec
from api_client.keys import Keys
from api_client.records import dumps
from worker.bench.agents import asking
from worker.bench.crew import callers, crew
from worker.bench.load import ASKING, TASK
from worker.bench.measuring import Row, in_turns, median_of, percentile, row
from worker.bench.options import Options
from worker.bench.room import Room, room
from worker.bench.stepping import LEASE_MS, JobFailed, make_runner
from worker.ends import Suspended
from worker.following import PAUSED, pause_meta
from worker.leases import Leases
from worker.store.redis import RedisCheckpointStore

FEW = 10
SIZES = (10_000, 100_000)
QUICK_SIZES = (1_000, 10_000)
RESUMED, QUICK_RESUMED = 20, 10
"""Jobs that are resumed for one sample."""

LOOKED_AT = 200
"""Jobs whose keys are measured one by one."""

WARM_UP = 5
WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Bytes:
    """What one job takes on average, all together and beyond the JSON of its messages."""

    all: float
    messages: float
    record: float
    trace: float
    transcript: float

    @property
    def beyond_messages(self) -> float:
        """Record, trace, what a list needs, and its share of every index."""
        return self.all - self.messages


class Desk:
    """A server with paused jobs, of which one now and then is answered.

    Args:
        app: in whose result backend the state of each job is shown, as a worker does it.
    """

    def __init__(self, here: Room, app: Celery, client: AgentClient) -> None:
        self._here = here
        self._app = app
        self._client = client
        self._store = RedisCheckpointStore(here.redis)
        self._runner = make_runner(self._store, Leases(self._store, LEASE_MS), asking)
        self._ids: list[str] = []

    def fill(self, jobs: int) -> Bytes:
        """Let so many jobs pause; what each of them takes.

        Raises:
            JobFailed: one did not pause.
        """
        before = self._used()
        self._ids += [self._pause() for _ in range(jobs)]
        return self._bytes((self._used() - before) / jobs)

    def resume_ms(self, jobs: int) -> float:
        """The median of so many times from an answer to the job's result, in milliseconds."""
        return percentile([self._resume() for _ in range(jobs)], 50)

    def _resume(self) -> float:
        """Answer one; another takes its place."""
        job_id = self._ids.pop(len(self._ids) // 2)
        begin = time.perf_counter()
        self._client.signal(job_id, Answer(value="Yes."))
        self._client.result(job_id, WITHIN_S)
        ms = (time.perf_counter() - begin) * 1000
        self._ids.append(self._pause())
        return ms

    def _pause(self) -> str:
        job_id = str(uuid.uuid4())
        self._store.create(JobSpec(job_id=job_id, agent=ASKING, input=TASK))
        end = self._runner.run(job_id)
        if not isinstance(end, Suspended):
            raise JobFailed(f"a job of the benchmark came to {type(end).__name__}, not to a pause")
        self._app.backend.store_result(job_id, pause_meta(end.pause), PAUSED)
        return job_id

    def _used(self) -> int:
        return int(self._here.redis.info("memory")["used_memory_dataset"])

    def _bytes(self, each: float) -> Bytes:
        keys, looked_at = Keys(0), self._ids[-LOOKED_AT:]
        return Bytes(
            each,
            fmean(self._messages_bytes(job_id) for job_id in looked_at),
            self._usage(map(keys.job, looked_at)),
            self._usage(map(keys.trace, looked_at)),
            self._usage(map(keys.messages, looked_at)),
        )

    def _messages_bytes(self, job_id: str) -> int:
        return sum(len(dumps(message).encode()) for message in self._store.messages(job_id))

    def _usage(self, keys: Iterable[str]) -> float:
        return fmean(self._here.redis.memory_usage(key, samples=0) for key in keys)


def measure(options: Options, say: Callable[[str], None]) -> list[Row]:
    """A row for each number of paused jobs.

    Raises:
        EmbeddedServerError: there is no server to measure on.
        WorkerMissing: a worker did not start.
    """
    sizes = QUICK_SIZES if options.quick else SIZES
    with _desk() as few:
        few.fill(FEW)
        return [_measure(few, jobs, options, say) for jobs in sizes]


def _measure(few: Desk, jobs: int, options: Options, say: Callable[[str], None]) -> Row:
    say(f"paused: {jobs} jobs")
    resumed = QUICK_RESUMED if options.quick else RESUMED
    with _desk() as many:
        took = many.fill(jobs)
        few.resume_ms(WARM_UP)
        many.resume_ms(WARM_UP)
        floors, values = in_turns(
            options.samples, lambda: few.resume_ms(resumed), lambda: many.resume_ms(resumed)
        )
    return row(
        floors,
        values,
        jobs=jobs,
        resume_ms=median_of(values, float),
        bytes_per_job=took.beyond_messages,
        messages_bytes=took.messages,
        record_bytes=took.record,
        trace_bytes=took.trace,
        transcript_bytes=took.transcript,
        other_bytes=took.all - took.record - took.trace - took.transcript,
        fsync="everysec",
    )


@contextmanager
def _desk() -> Iterator[Desk]:
    """A desk with a worker of its own."""
    with room() as here, crew(here) as workers, callers(here) as (app, client):
        workers.start("desk")
        workers.wait(app, ["desk"])
        yield Desk(here, app, client)
