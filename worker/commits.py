"""What one slice writes: numbered commits, one after the other, at most one of them on its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from api_client.contract import JobStatus
from worker.patience import patiently
from worker.store.base import (
    CheckpointStore,
    Claimed,
    CommitAnswer,
    Progress,
    Settlement,
    Ticket,
    Underway,
)


@dataclass(slots=True)
class Answered:
    """The store's answer to a commit, and for how many milliseconds it kept us waiting."""

    progress: Progress
    verdict: CommitAnswer
    ms: int


class Commits:
    """Writes a claimed job's progress.

    Args:
        patience_s: how long a call is tried again while the store is away.
        clock_ms: monotonic milliseconds.
    """

    def __init__(
        self,
        store: CheckpointStore,
        claim: Claimed,
        patience_s: float,
        clock_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._job_id = claim.spec.job_id
        self._epoch = claim.epoch
        self._nonce = claim.nonce
        self._seq = claim.seq
        self._patience_s = patience_s
        self._clock_ms = clock_ms
        self._underway: tuple[Progress, Underway] | None = None

    @property
    def seq(self) -> int:
        """Number of the last commit, made or on its way."""
        return self._seq

    def _ticket(self) -> Ticket:
        self._seq += 1
        return Ticket(self._job_id, self._epoch, self._seq, self._nonce)

    def begin(self, progress: Progress) -> None:
        """Send progress on its way; ``commit`` or ``arrived`` must come next."""
        self._underway = progress, self._store.begin_commit(self._ticket(), progress)

    def commit(self, progress: Progress) -> list[Answered]:
        """Make progress durable.

        Returns the answers, in order: to what was on its way, if anything was, and to this.

        Raises:
            StoreUnavailable: the store stays away.
        """
        ticket = self._ticket()
        if self._underway is None:
            return [self._wait(progress, lambda: self._store.commit(ticket, progress))]
        (earlier, before), self._underway = self._underway, None
        answer = self._store.begin_commit(ticket, progress, before)
        return [self._wait(earlier, before), self._wait(progress, answer)]

    def arrived(self) -> Answered | None:
        """The answer to what is on its way, waited for; ``None`` if nothing is."""
        if self._underway is None:
            return None
        (progress, answer), self._underway = self._underway, None
        return self._wait(progress, answer)

    def _wait(self, progress: Progress, answer: Underway) -> Answered:
        start = self._clock_ms()
        verdict = patiently(answer, self._patience_s)
        return Answered(progress, verdict, self._clock_ms() - start)

    def settle(self, progress: Progress, settlement: Settlement) -> JobStatus | None:
        """Give the lease back with the last progress; see ``CheckpointStore.settle``."""
        ticket = self._ticket()
        return patiently(lambda: self._store.settle(ticket, progress, settlement), self._patience_s)
