"""What a store has promised of each job so far, and how a machine holds it to that.

The machine remembers what it was promised, and nothing of how a store works. Each broken promise
is named by the number of its rule in the architecture document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from api_client.contract import JobStatus, Outcome
from tests.contract.worlds import MINUTE, SECOND, World

LEASE = MINUTE
RETENTION = 60 * MINUTE
MAX_TRIES = 2

JOBS = st.sampled_from(["a", "a", "b"])
OWNERS = st.sampled_from(["w1/boot/1/", "w1/boot/2/", "w2/boot/1/"])
ENDINGS = [
    JobStatus.PAUSED,
    JobStatus.PAUSED,
    JobStatus.PAUSED,
    JobStatus.WAITING,
    JobStatus.QUEUED,
    JobStatus.SUCCEEDED,
    JobStatus.FAILED,
]


@dataclass(eq=False)
class Promised:
    """What the store has promised of one job so far."""

    status: JobStatus = JobStatus.QUEUED
    epoch: int = 0
    tries: int = 0
    messages: list[str] = field(default_factory=list)
    nonce: str = ""
    owner: str = ""
    lease_until: int = 0
    wait_until: int = 0
    cancel: bool = False
    pauses: int = 0
    signals: dict[str, str] = field(default_factory=dict)
    waiting_signal: str | None = None
    mail: list[str] = field(default_factory=list)
    heard: int = 0
    halt: bool = False
    outcome: Outcome | None = None
    gone_at: int | None = None

    @property
    def pause_id(self) -> str:
        return f"p{self.pauses}"

    def let_go(self) -> None:
        self.nonce = self.owner = ""
        self.lease_until = 0

    def end(self, status: JobStatus, outcome: Outcome) -> None:
        self.status, self.outcome, self.waiting_signal = status, outcome, None


@dataclass(eq=False)
class Held:
    """A worker's memory of its claim; it may be wrong about still having the job."""

    job_id: str
    epoch: int
    nonce: str
    seq: int
    signal: bool
    last: Callable[[], Any] | None = None
    answer: Any = None
    left: Any = None


class Promises(RuleBasedStateMachine):
    """Keeps the promises, and the time."""

    def __init__(self, world: World, tenants: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.world = world
        self.tenants = tenants or {}
        """The tenant of each job; none for those that are not named."""
        self.store = world.store
        self.now = 0
        self.jobs: dict[str, Promised] = {}
        self.numbers = count(1)

    # --- helpers -----------------------------------------------------------------------------

    def there(self, job_id: str) -> Promised | None:
        """The job, unless its retention has passed."""
        job = self.jobs.get(job_id)
        if job is not None and job.gone_at is not None and job.gone_at <= self.now:
            del self.jobs[job_id]
            return None
        return job

    def is_held(self, job: Promised) -> bool:
        return job.lease_until > self.now

    def may_write(self, held: Held) -> bool:
        job = self.there(held.job_id)
        return job is not None and job.epoch == held.epoch and job.status is JobStatus.RUNNING

    def unchanged(self, job_id: str, act: Callable[[], Any], why: str) -> Any:
        """Do something that must not change a job."""
        before = self.world.raw(job_id)
        answer = act()
        assert self.world.raw(job_id) == before, why
        return answer

    @rule(ms=st.sampled_from([20 * SECOND, MINUTE, MINUTE, 3 * MINUTE, 25 * MINUTE]))
    def time_passes(self, ms: int) -> None:
        self.now += ms
        self.world.advance(ms)
