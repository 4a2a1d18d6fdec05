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
        owner: of its lease, as the store has it: node, start and process.
        killed_ms: when it was killed, in milliseconds since the epoch.
        down_s: seconds for which it was left down.
    """

    job_id: str
    owner: str
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
            self._kill_part(running[int(strike.draw * len(running))])
        else:
            down_s = 0.0 if self._back else strike.down_s  # somebody must be there to take over
            now_ms = self._strike_now()
            worker.kill()
            self._note(self._running_on(worker), now_ms, down_s)
            self._back[worker.node] = time.monotonic() + down_s
        self.done["kill"] += 1
        self._wait(0)

    def _kill_part(self, job: JobView) -> None:
        """Kill one process of a pool: the one that runs this job."""
        now_ms = self._strike_now()
        os.kill(_owner(job)[2], signal.SIGKILL)
        self._note([job], now_ms, 0.0)

    def _note(self, jobs: Sequence[JobView], now_ms: int, down_s: float) -> None:
        self.victims += [Victim(job.job_id, job.worker or "", now_ms, down_s) for job in jobs]

    def _strike_now(self) -> int:
        """Note the moment of a strike; returns it."""
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
        """The jobs of this start of a worker; those of earlier ones are still being freed."""
        running = [view for view in self._field.listed(JobStatus.RUNNING) if view.worker]
        for view in running:
            worker.recognise(*_owner(view))
        return [view for view in running if _owner(view)[:2] == (worker.node, worker.boot)]

    # --- Redis -----------------------------------------------------------------------------

    def _restart_redis(self, strike: Strike) -> None:
        self._wait(strike.delay_s)
        self._server.kill()
        self._strike_now()
        self._wait(strike.down_s / 2)
        if strike.both:
            self._kill_unseen(strike)
        self._wait(strike.down_s / 2)
        self._server.start()
        self._strike_now()
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
            self._strike_now()
            self.done["drop_hint"] += 1

    def _take(self) -> bytes | None:
        """The next message that comes within the time, if no worker is quicker."""
        taken = self._field.redis.brpop([QUEUE], timeout=HINT_WITHIN_S)
        return None if taken is None else taken[1]


def _owner(job: JobView) -> tuple[str, str, int]:
    """Who holds a job, ``NODE/BOOT/PID/``: the node, its start and the process."""
    node, boot, pid = (job.worker or "").split("/")[:3]
    return node, boot, int(pid)
