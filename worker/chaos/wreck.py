"""What strikes a chaos run: dead workers, a dead Redis, doubled and dropped hints."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from api_client.contract import JobStatus, JobView
from worker.chaos.field import Field
from worker.chaos.plan import Strike
from worker.chaos.processes import WorkerProcess
from worker.embedded import EmbeddedServer

QUEUE = "celery"
"""The list in Redis that is Celery's default queue."""

BUSY_WITHIN_S = 15.0
HINT_WITHIN_S = 3
FORERUN = 5
"""Jobs that may be accepted beyond a strike that is due."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A job that a killed worker was running.

    Attributes:
        killed_ms: when the worker was found dead, in milliseconds since the epoch.
        down_s: seconds for which it was left down.
    """

    job_id: str
    node: str
    killed_ms: int
    down_s: float


class Wrecker:
    """Strikes in the order of the plan, and puts up again what it has struck down.

    Attributes:
        done: how often each deed was done.
        victims: of the kills.
        moments: at which something was struck, in milliseconds since the epoch.
    """

    def __init__(
        self, field: Field, server: EmbeddedServer, workers: Sequence[WorkerProcess]
    ) -> None:
        self._field = field
        self._server = server
        self._workers = workers
        self._back: dict[str, float] = {}
        self._struck = 0
        self.done: Counter[str] = Counter()
        self.victims: list[Victim] = []
        self.moments: list[int] = []

    def work(self) -> None:
        """Strike until the plan is done, or the run is over; then every worker is up."""
        with self._field.until_over():
            for strike in self._field.plan.strikes:
                while len(self._field.ids) < strike.after:
                    self._wait()
                self._strike(strike)
                self._struck += 1
            while self._back:
                self._wait()

    @property
    def finished(self) -> bool:
        """Whether every strike has been done and every worker is up again."""
        return self._struck == len(self._field.plan.strikes) and not self._back

    def allows(self, number: int) -> bool:
        """Whether the job of this number may be submitted: not far ahead of the strikes."""
        strikes = self._field.plan.strikes
        return self._struck == len(strikes) or number <= strikes[self._struck].after + FORERUN

    def _wait(self, seconds: float = 0.05) -> None:
        """Wait; meanwhile start the workers whose time has come."""
        self._field.pause(seconds)
        for worker in self._workers:
            if self._back.get(worker.node, time.monotonic() + 1) <= time.monotonic():
                worker.start()
                del self._back[worker.node]

    def _strike(self, strike: Strike) -> None:
        match strike.deed:
            case "kill":
                self._kill(strike)
            case "restart_redis":
                self._restart_redis(strike)
            case "double_hint":
                self._double()
            case "drop_hint":
                self._drop()

    # --- workers ---------------------------------------------------------------------------

    def _kill(self, strike: Strike) -> None:
        """Kill a worker that runs jobs; if there is none in time, any that is up."""
        worker = self._busy_worker(strike)
        self._wait(strike.delay_s)
        running = self._running_on(worker)
        if strike.part and self._field.options.pool == "prefork" and running:
            self._kill_part(worker, running[int(strike.draw * len(running))])
        else:
            down_s = 0.0 if self._back else strike.down_s  # somebody must be there to take over
            worker.kill()
            self._note(worker, self._running_on(worker), down_s)
            self._back[worker.node] = time.monotonic() + down_s
        self.done["kill"] += 1
        self._wait(0)

    def _kill_part(self, worker: WorkerProcess, job: JobView) -> None:
        """Kill one process of a pool: the one that runs this job."""
        os.kill(_process_of(job), signal.SIGKILL)
        self._note(worker, [job], 0.0)

    def _note(self, worker: WorkerProcess, jobs: Sequence[JobView], down_s: float) -> None:
        now_ms = self._struck_now()
        self.victims += [Victim(job.job_id, worker.node, now_ms, down_s) for job in jobs]

    def _struck_now(self) -> int:
        self.moments.append(time.time_ns() // 1_000_000)
        return self.moments[-1]

    def _busy_worker(self, strike: Strike) -> WorkerProcess:
        deadline = time.monotonic() + BUSY_WITHIN_S
        while True:
            up = [worker for worker in self._workers if worker.up]
            late = time.monotonic() > deadline
            busy = [worker for worker in up if late or self._running_on(worker)]
            if busy:
                return busy[int(strike.draw * len(busy))]
            self._wait()

    def _running_on(self, worker: WorkerProcess) -> list[JobView]:
        running = self._field.listed(JobStatus.RUNNING)
        return [view for view in running if (view.worker or "").startswith(f"{worker.node}/")]

    # --- Redis -----------------------------------------------------------------------------

    def _restart_redis(self, strike: Strike) -> None:
        self._wait(strike.delay_s)
        self._server.kill()
        self._struck_now()
        self._wait(strike.down_s / 2)
        if strike.both:
            self._kill_unseen(strike)
        self._wait(strike.down_s / 2)
        self._server.start()
        self._struck_now()
        self.done["restart_redis"] += 1

    def _kill_unseen(self, strike: Strike) -> None:
        """Kill a worker while nobody can say what it runs, because the store is away as well."""
        up = [worker for worker in self._workers if worker.up]
        if up:
            worker = up[int(strike.draw * len(up))]
            worker.kill()
            self._back[worker.node] = time.monotonic()
            self.done["kill"] += 1

    # --- hints -----------------------------------------------------------------------------

    def _double(self) -> None:
        """Take a message from the queue, in the place of a worker, and put it back twice."""
        message = self._take()
        if message is not None:
            self._field.redis.rpush(QUEUE, message, message)
            self.done["double_hint"] += 1

    def _drop(self) -> None:
        """Take a message from the queue and forget it."""
        if self._take() is not None:
            self._struck_now()
            self.done["drop_hint"] += 1

    def _take(self) -> bytes | None:
        """The next message that comes within the time, if no worker is quicker."""
        taken = self._field.redis.brpop([QUEUE], timeout=HINT_WITHIN_S)
        return None if taken is None else taken[1]


def _process_of(job: JobView) -> int:
    """The process that holds a job: its owner is ``NODE/BOOT/PID/``."""
    return int((job.worker or "").split("/")[2])
