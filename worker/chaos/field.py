"""What the parts of a running chaos run share: the store, the progress, and the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from api_client.client import AgentClient
from api_client.connection import Client, connect
from api_client.contract import JobStatus, JobView, PauseKind
from api_client.errors import JobNotFound
from api_client.redis_store import RedisJobStore
from worker.chaos.ledger import Ledger
from worker.chaos.options import Options
from worker.chaos.plan import Plan, PlannedJob
from worker.patience import patiently

T = TypeVar("T")

PATIENCE_S = 60.0
TICK_S = 0.05
_ENDED = tuple(status for status in JobStatus if status.ended)


class Field:
    """The field on which jobs run and strikes fall.

    Attributes:
        ids: of the accepted jobs, by their numbers.
    """

    def __init__(self, options: Options, plan: Plan, url: str, ledger: Ledger) -> None:
        self.options = options
        self.plan = plan
        self.url = url
        self.ledger = ledger
        self.store = RedisJobStore.from_url(url)
        self.client = AgentClient(url, store=self.store)
        self.redis: Client = connect(url)
        self.ids: dict[int, str] = {}
        self.jobs: dict[str, PlannedJob] = {}
        self._over = threading.Event()

    def patiently(self, call: Callable[[], T]) -> T:
        """The call's result; tried again while Redis is down.

        Raises:
            Stopped: the run is over.
            StoreUnavailable: Redis did not come back.
        """

        def attempt() -> T:
            if self.over:
                raise Stopped
            return call()

        return patiently(attempt, PATIENCE_S)

    def accepted(self, job: PlannedJob, job_id: str) -> None:
        """Note that the service has accepted a job."""
        self.jobs[job_id] = job
        self.ids[job.number] = job_id

    def view(self, job_id: str) -> JobView | None:
        """Where a job stands; ``None`` if its record is gone."""
        try:
            return self.patiently(lambda: self.store.read(job_id))
        except JobNotFound:
            return None

    def ended(self) -> int:
        """How many jobs have come to their end."""
        return sum(self.patiently(partial(self.store.count, status)) for status in _ENDED)

    def listed(self, status: JobStatus) -> list[JobView]:
        """The jobs that are in one status now."""
        limit = self.options.window + self.plan.staying + 100
        return self.patiently(lambda: self.store.list_jobs(status, limit, newest_first=True))

    def staying(self) -> int:
        """How many of the jobs that nobody answers have come to their question."""
        paused = self.listed(JobStatus.PAUSED) if self.plan.staying else []
        return sum(
            not self.jobs[view.job_id].answered and self.is_asked(view)
            for view in paused
            if view.job_id in self.jobs
        )

    @staticmethod
    def is_asked(view: JobView) -> bool:
        """Whether a job waits for the answer to a question."""
        return view.pause is not None and view.pause.kind is PauseKind.HAND_TO_HUMAN

    # --- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """Tell everybody to stop, and let go of every connection."""
        self._over.set()
        self.redis.close()

    @property
    def over(self) -> bool:
        """Whether everybody is to stop."""
        return self._over.is_set()

    def pause(self, seconds: float = TICK_S) -> None:
        """Wait; not for longer than the run lasts.

        Raises:
            Stopped: the run is over.
        """
        if self._over.wait(seconds):
            raise Stopped

    @contextmanager
    def until_over(self) -> Iterator[None]:
        """The block ends without an error when the run is over."""
        try:
            yield
        except Stopped:
            return


class Stopped(Exception):
    """The run is over."""
