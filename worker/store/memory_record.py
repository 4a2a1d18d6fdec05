"""A job's record in the store in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from api_client.contract import (
    AnsweredPause,
    Event,
    JobSpec,
    JobStatus,
    Outcome,
    Pause,
)
from api_client.live import LiveRecord
from worker.store.memory_desk import DeskRecord
from worker.store.turns import Place


@dataclass(slots=True)
class Record:
    """What is stored of one job; ``place`` only of one that names a tenant."""

    spec: JobSpec
    created: int
    since: int
    due: int | None
    status: JobStatus = JobStatus.QUEUED
    epoch: int = 0
    seq: int = 0
    tries: int = 0
    hints: int = 0
    missed: bool = False
    owner: str | None = None
    nonce: str | None = None
    taken: str = ""
    lease: int = 0
    run: str | None = None
    pause: Pause | None = None
    signal: str | None = None
    answered: AnsweredPause | None = None
    answered_id: str = ""
    due_at: int | None = None
    start_by: int | None = None
    awaits: bool = False
    woken: bool = False
    cancel: tuple[str, str] | None = None
    outcome: Outcome | None = None
    published: bool = False
    expires: int | None = None
    messages: list[str] = field(default_factory=list)
    trace: list[Event] = field(default_factory=list)
    live: list[LiveRecord] = field(default_factory=list)
    live_until: int = 0
    place: Place | None = None
    desk: DeskRecord = field(default_factory=DeskRecord)

    def enter(self, status: JobStatus, now: int) -> None:
        if status is not self.status:
            self.status, self.since = status, now

    def free(self) -> None:
        self.owner = self.nonce = None
        self.lease = 0

    def end(self, status: JobStatus, outcome: Outcome, now: int) -> None:
        self.enter(status, now)
        self.outcome = outcome
        self.pause = self.signal = self.due_at = None


def next_id(last: str, now: int) -> str:
    """The id of the next entry of a stream: later than the last, and not before ``now``."""
    stamp, number = order_of(last)
    return f"{stamp}-{number + 1}" if stamp >= now else f"{now}-0"


def order_of(event_id: str) -> tuple[int, int]:
    first, _, second = event_id.partition("-")
    return int(first), int(second or 0)
