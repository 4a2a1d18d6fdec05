"""``waiting``: thousands of jobs at once in one worker process, each waiting for a slow model.

Floor: a bare asyncio script in a process of its own that makes the same calls with the same SDK
and stores nothing. The jobs are accepted before the worker starts; its time runs from its first
claim until the last result is in Celery's backend.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from api_client.client import AgentClient
from api_client.contract import JobStatus
from api_client.redis_store import RedisJobStore
from worker.bench.crew import Crew, WorkerMissing, crew
from worker.bench.load import WAITING
from worker.bench.measuring import Row, in_turns, median_of, ratio, row
from worker.bench.options import Options
from worker.bench.room import Room, room
from worker.bench.slow_model import STEPS
from worker.bench.vital import Vital, open_files
from worker.embedded import free_ports
from worker.guarded import GuardedProcess, environment_without

LOOK_EVERY_S = 0.02
SPARE_FILES = 500
ROUNDS = 2
QUICK_ROUNDS = 1


@dataclass(frozen=True, slots=True)
class Size:
    """How many jobs, and how long each call of theirs takes."""

    jobs: int
    call_s: float

    @property
    def ideal_s(self) -> float:
        """The time if nothing but the model took any."""
        return STEPS * self.call_s

    @property
    def patience_s(self) -> float:
        """After so long it is given up."""
        return 60 + 10 * self.ideal_s


FULL = Size(2000, 10.0)
QUICK = Size(500, 3.0)


@dataclass(frozen=True, slots=True)
class _Sample:
    seconds: float
    errors: int
    vital: Vital | None


def measure(options: Options, say: Callable[[str], None], size: Size | None = None) -> list[Row]:
    """One row.

    Raises:
        EmbeddedServerError: there is no server to measure on.
        WorkerMissing: a process did not start, or ended by itself.
    """
    size = size or (QUICK if options.quick else FULL)
    rounds = options.repeat or (QUICK_ROUNDS if options.quick else ROUNDS)
    say(f"waiting: {size.jobs} jobs of {STEPS} calls of {size.call_s:g} s")
    with open_files(2 * size.jobs + SPARE_FILES), room() as here, _model(here, size) as url:
        floors, values = in_turns(
            rounds, lambda: _bare(here, size, url), lambda: _ours(here, size, url)
        )
    return [_row(size, floors, values)]


def _row(size: Size, floors: list[_Sample], values: list[_Sample]) -> Row:
    seconds = median_of(values, lambda sample: sample.seconds)
    return row(
        [sample.seconds for sample in floors],
        [sample.seconds for sample in values],
        jobs=size.jobs,
        call_s=size.call_s,
        ideal_s=size.ideal_s,
        ideal_ratio=ratio(seconds, size.ideal_s),
        floor_ideal_ratio=ratio(median_of(floors, lambda sample: sample.seconds), size.ideal_s),
        rss_mb=_most(values, lambda vital: vital.rss_mb),
        floor_rss_mb=_most(floors, lambda vital: vital.rss_mb),
        cpu_s=_most(values, lambda vital: vital.cpu_s),
        floor_cpu_s=_most(floors, lambda vital: vital.cpu_s),
        threads=_most(values, lambda vital: vital.threads),
        open_files=_most(values, lambda vital: vital.files),
        errors=sum(sample.errors for sample in values),
        floor_errors=sum(sample.errors for sample in floors),
        fsync="everysec",
    )


def _most(samples: list[_Sample], figure: Callable[[Vital], float]) -> float | None:
    """The largest of a figure; ``None`` where the system does not tell."""
    known = [figure(sample.vital) for sample in samples if sample.vital is not None]
    return max(known, default=None)


@contextmanager
def _model(here: Room, size: Size) -> Iterator[str]:
    """The slow model's server, in a process of its own; gives its address."""
    port = next(free_ports(1))
    process = _python(here, "slow_model", str(port), str(size.call_s))
    try:
        _wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()


def _python(here: Room, name: str, *arguments: str) -> GuardedProcess:
    command = [sys.executable, "-m", f"worker.bench.{name}", *arguments]
    log = here.folder / f"{name}.log"
    log.unlink(missing_ok=True)
    return GuardedProcess(command, environment_without(), log, here.folder)


def _wait_for_port(port: int, process: GuardedProcess) -> None:
    while process.code is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(LOOK_EVERY_S)
        else:
            return
    raise WorkerMissing(f"the model's server did not start: {process.last_words(1)}")


def _bare(here: Room, size: Size, url: str) -> _Sample:
    """The script once, watched from outside."""
    process = _python(here, "bare_calls", url, str(size.jobs))
    vital: Vital | None = None
    try:
        while process.code is None:
            now = Vital.of(process.pid)
            vital = now.most(vital) if now else vital
            time.sleep(LOOK_EVERY_S)
        found = json.loads(process.last_words(1))
    finally:
        process.kill()
    return _Sample(found["seconds"], found["errors"], vital)


def _ours(here: Room, size: Size, url: str) -> _Sample:
    """One worker process once."""
    here.empty()
    client = AgentClient(here.url)
    for _ in range(size.jobs):
        client.submit(WAITING, "Take so many steps.", check_agent=False)
    settings = {
        "STEPKEEPER_IN_FLIGHT": str(size.jobs),
        "LLM_BASE_URL": url,
        "LLM_API_KEY": "none-is-needed",
        "LLM_MODEL": "slow",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    with crew(here, **settings) as workers:
        process = workers.start("waiting")
        return _watch(here, size, workers, process)


def _watch(here: Room, size: Size, workers: Crew, process: GuardedProcess) -> _Sample:
    store = RedisJobStore(here.redis)
    _wait_until(lambda: store.count(JobStatus.RUNNING) > 0, size, workers)
    begin = time.perf_counter()
    vital: Vital | None = None

    def ended() -> bool:
        nonlocal vital
        now = Vital.of(process.pid)
        vital = now.most(vital) if now else vital
        return here.results() >= size.jobs

    _wait_until(ended, size, workers)
    seconds = time.perf_counter() - begin
    return _Sample(seconds, size.jobs - store.count(JobStatus.SUCCEEDED) + _retries(store), vital)


def _wait_until(condition: Callable[[], bool], size: Size, workers: Crew) -> None:
    deadline = time.monotonic() + size.patience_s
    while not condition():
        workers.check()
        if time.monotonic() > deadline:
            raise WorkerMissing(f"the jobs have not ended after {size.patience_s:g} s")
        time.sleep(LOOK_EVERY_S)


def _retries(store: RedisJobStore) -> int:
    """Calls of the model that failed and were made again."""
    jobs = store.list_jobs(JobStatus.SUCCEEDED, limit=1_000_000)
    return sum(event.kind == "retry" for job in jobs for event in store.events(job.job_id))
