"""What a worker asks of the store, on top of what every caller may ask (``JobStore``).

Any method may raise ``StoreUnavailable``; each may then be called again with the same arguments,
also when the first call did take effect and only its reply was lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from api_client.contract import AgentInfo, JobSpec, JobStatus, Outcome, Pause, Signal
from api_client.store import JobStore


@dataclass(frozen=True, slots=True)
class Claimed:
    """The right to advance a job.

    Attributes:
        epoch: the fencing token; every commit must show it.
        seq: number of the last commit.
        tries: starts at this very step, this one included; above 1, earlier ones died at it.
        run: the loop's state as stored, ``None`` for a job that has not begun.
        pause, signal: of the pause that was answered and whose answer nobody has taken up yet.
        was: the status before; ``running`` if its worker was gone. ``None``: it is not known.
        waited_ms: for how long it could have been claimed, on the store's clock.
    """

    spec: JobSpec
    epoch: int
    seq: int
    tries: int
    messages: list[dict[str, Any]]
    run: str | None = None
    pause: Pause | None = None
    signal: Signal | None = None
    was: JobStatus | None = None
    waited_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ToPublish:
    """The job has ended and its outcome has not reached the result backend yet."""

    spec: JobSpec
    status: JobStatus
    outcome: Outcome
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotClaimed:
    """There is nothing to do here: why, and who holds the job or until when it waits."""

    why: Literal["missing", "ended", "paused", "not_due", "busy"]
    detail: str = ""


Claim = Claimed | ToPublish | NotClaimed


@dataclass(frozen=True, slots=True)
class Ticket:
    """A runner's right to write: which job, under which fencing token, as which commit."""

    job_id: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What a commit makes durable.

    Attributes:
        run: the loop's state, JSON.
        kind, data: the record for the trace.
        messages: new ones only.
        consumes_signal: the person's answer has been taken up.
    """

    run: str
    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    messages: Sequence[dict[str, Any]] = ()
    consumes_signal: bool = False


CommitAnswer = Literal["committed", "cancel", "fenced"]
"""``cancel``: committed, and the job is to be cancelled. ``fenced``: nothing was changed."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a slice ends.

    Attributes:
        status: paused, waiting, queued (handed over), succeeded or failed.
        payload: the pause, or the outcome of a job that ended.
        delay_ms: until a sweep looks at the job.
    """

    status: JobStatus
    payload: Pause | Outcome | None = None
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Hint:
    """A job that should be hinted, and where it stood when the sweep found it."""

    spec: JobSpec
    status: JobStatus


Renewal = Literal["renewed", "cancel", "lost"]


class CheckpointStore(JobStore, Protocol):
    """The store as workers see it."""

    def claim(self, job_id: str, *, owner: str, nonce: str, lease_ms: int, max_tries: int) -> Claim:
        """Take a job, raising its epoch.

        A job out of tries becomes a failure to publish, one whose cancel is pending becomes
        cancelled. The same nonce again finds the claim that it made.
        """

    def commit(self, ticket: Ticket, progress: Progress) -> CommitAnswer:
        """Append progress while holding the lease; ``ticket.seq`` is the last commit's plus 1."""

    def settle(
        self, ticket: Ticket, progress: Progress, settlement: Settlement
    ) -> JobStatus | None:
        """Append the last progress and give the lease back.

        Returns the status the job now has (``cancelled`` wins over all others), ``None`` if
        fenced.
        """

    def renew(self, leases: Sequence[tuple[str, int]], lease_ms: int) -> list[Renewal]:
        """Renew leases, given as (job id, epoch)."""

    def published(self, job_id: str) -> None:
        """The outcome has reached the result backend; the job's keys expire from now on."""

    def emit(self, job_id: str, epoch: int, records: Sequence[Mapping[str, Any]]) -> CommitAnswer:
        """Append to the job's live stream while holding the lease; changes nothing of the job.

        Sent twice it appends twice. Without records it only tells how the job stands.

        Args:
            records: the fields of ``LiveRecord`` without its id.
        """

    def wake(self, job_id: str) -> JobSpec | None:
        """A sub-job has ended: let its parent look.

        Returns the parent's spec if it waits and should be hinted. One that is running looks
        again before it waits.
        """

    def sweep(self, *, limit: int, grace_ms: int, cap_ms: int) -> list[Hint]:
        """Find due work and note that it is being hinted; forget what has expired.

        Args:
            limit: most jobs to look at, in each partition.
            grace_ms, cap_ms: a hint's time before the next; it doubles with each, up to the cap.
        """

    def abandon(
        self, owner_prefix: str, *, keep: str = "", job_id: str = "", delay_ms: int = 0
    ) -> list[JobSpec]:
        """End the leases of owners that start with ``owner_prefix`` (but not with ``keep``).

        Args:
            job_id: only this job's; by default those of all running jobs.
            delay_ms: until a sweep hints them.

        Returns the jobs that were freed.
        """

    def announce(self, agents: Sequence[AgentInfo]) -> None:
        """Tell callers which agents there are."""
