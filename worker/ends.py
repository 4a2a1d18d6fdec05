"""How a slice ends. What follows from it (publishing, hinting, events) is for others to do."""

from __future__ import annotations

from dataclasses import dataclass

from api_client.contract import JobSpec, JobStatus, Outcome, Pause


@dataclass(frozen=True, slots=True)
class Ended:
    """The job has ended; the outcome is to be published.

    Attributes:
        again: perhaps it has been published before.
        children: sub-jobs that nobody waits for any more.
    """

    spec: JobSpec
    status: JobStatus
    outcome: Outcome
    again: bool = False
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suspended:
    """The job waits for a person."""

    spec: JobSpec
    pause: Pause


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The slice is over and the job is not: it wants a hint."""

    spec: JobSpec


@dataclass(frozen=True, slots=True)
class Deferred:
    """The job waits for a model; the sweep hints it when the time has come."""

    spec: JobSpec
    seconds: float
    text: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Awaited:
    """The job waits for its sub-jobs; the last of them wakes it."""

    spec: JobSpec
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """Nothing was done, or nothing more may be done here: another runner has the job."""

    why: str
    detail: str = ""


SliceEnd = Ended | Suspended | HandedOver | Deferred | Awaited | Left
