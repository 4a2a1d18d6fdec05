"""The store in memory: the same promises as on Redis, for tests and for running inline."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from api_client.contract import (
    SIGNAL,
    AgentInfo,
    JobSpec,
    JobStatus,
    Outcome,
    Pause,
    PauseKind,
)
from api_client.errors import JobNotFound
from api_client.live import LIVE_LENGTH, LIVE_TTL_S, LiveRecord
from api_client.records import dumps
from api_client.refusals import cancelled_outcome
from api_client.runs import read_run
from worker.store.base import (
    Claim,
    Claimed,
    CommitAnswer,
    Hint,
    LiveAnswer,
    Mark,
    NotClaimed,
    Progress,
    Renewal,
    Settlement,
    Ticket,
    ToPublish,
    Underway,
)
from worker.store.memory_callers import MemoryCallers
from worker.store.memory_callers import wall_clock_ms as wall_clock_ms
from worker.store.memory_posts import told_as
from worker.store.memory_record import Record, next_id
from worker.store.outcomes import expired_outcome, poison_outcome

SURELY_SENT = 3
"""The repetition of a hint that is sent whatever waits in the queue."""


class MemoryStore(MemoryCallers):
    """``CheckpointStore`` in a dict, behind one lock; see ``MemoryCallers``."""

    # --- workers ---------------------------------------------------------------------------

    def claim(
        self,
        job_id: str,
        *,
        owner: str,
        nonce: str,
        lease_ms: int,
        max_tries: int,
        wary_of: int = 0,
        known: Mark | None = None,
        agents: Collection[str] = (),
    ) -> Claim:
        """See ``CheckpointStore.claim``."""
        with self._lock:
            try:
                job = self._get(job_id)
            except JobNotFound:
                return NotClaimed("missing")
            if job.status is JobStatus.PAUSED:
                return NotClaimed("paused")
            if job.status.ended and job.published:
                return NotClaimed("ended")
            was, waited_ms = self._before_claim(job, nonce)
            unchanged = known == Mark(job.taken, job.epoch, job.seq, len(job.messages))
            if job.nonce != nonce:
                refused = self._refused(job, agents, max_tries, wary_of)
                refused = refused or self._not_its_turn(job)
                if refused is None:
                    self._take(job, owner, nonce, lease_ms, max_tries)
                if refused is not None:
                    return refused
            if job.status.ended:
                assert job.outcome is not None
                children = tuple(read_run(job.run or "{}").get("children", ()))
                return ToPublish(job.spec, job.status, job.outcome, children)
            return Claimed(
                spec=job.spec,
                epoch=job.epoch,
                seq=job.seq,
                tries=job.tries,
                messages=[] if unchanged else [json.loads(text) for text in job.messages],
                run=job.run,
                pause=job.pause if job.signal is not None else None,
                signal=None if job.signal is None else SIGNAL.validate_json(job.signal),
                was=was,
                waited_ms=waited_ms,
                mail=tuple(job.desk.mail),
                halt=job.desk.halt,
                crowded=was is not None
                and job.place is not None
                and self.turns.others_wait(job.place),
                nonce=nonce,
                unchanged=unchanged,
            )

    def _before_claim(self, job: Record, nonce: str) -> tuple[JobStatus | None, int | None]:
        """The status that a new claim finds, and for how long the job could have been claimed."""
        if job.nonce == nonce:
            return None, None
        now = self._clock()
        since = job.due_at if job.status is JobStatus.WAITING else job.since
        if job.status is JobStatus.RUNNING or since is None:
            since = now
        return job.status, max(0, now - since)

    def _refused(
        self, job: Record, agents: Collection[str], max_tries: int, wary_of: int
    ) -> NotClaimed | None:
        now = self._clock()
        if job.lease > now:
            return NotClaimed("busy", job.owner or "")
        if self._expired(job):
            return None
        if job.status is JobStatus.WAITING and (job.due_at or 0) > now:
            return NotClaimed("not_due", str(job.due_at))
        runs_on = not job.status.ended and job.cancel is None
        if runs_on and agents and job.spec.agent not in agents:
            self._leave_window(job)
            return NotClaimed("unknown", job.spec.agent)
        if runs_on and 0 < wary_of <= job.tries < max_tries:
            job.hints = 0
            self._leave_window(job)
            return NotClaimed("suspect", str(job.tries))
        return None

    def _leave_window(self, job: Record) -> None:
        if job.place is not None and job.place.turn == "hinted":
            self.turns.step_out(job.place)

    def _expired(self, job: Record) -> bool:
        """Whether it was to begin by a certain time, and nobody has begun it."""
        begun = job.epoch > 0 or job.status.ended
        return not begun and job.start_by is not None and job.start_by <= self._clock()

    def _take(self, job: Record, owner: str, nonce: str, lease_ms: int, max_tries: int) -> None:
        now = self._clock()
        expired = self._expired(job)
        job.epoch += 1
        job.owner, job.nonce, job.lease, job.hints = owner, nonce, now + lease_ms, 0
        job.taken = nonce
        job.due = job.lease
        if not job.status.ended and (job.cancel is not None or expired):
            outcome = cancelled_outcome(*job.cancel) if job.cancel else expired_outcome()
            job.end(JobStatus.CANCELLED, outcome, now)
            self._note(job, "cancelled", {})
            self._tell(job, "cancelled", {})
        elif not job.status.ended:
            self._start(job, owner, max_tries, now)
        self._take_turn(job)

    def _start(self, job: Record, owner: str, max_tries: int, now: int) -> None:
        job.tries += 1
        if job.tries > max_tries:
            outcome = poison_outcome(max_tries)
            job.end(JobStatus.FAILED, outcome, now)
            self._note(job, "failed", outcome.model_dump(mode="json"))
            self._tell(job, "failed", {"reason": outcome.reason})
            return
        was, job.due_at = job.status, None
        job.awaits = job.woken = False
        job.enter(JobStatus.RUNNING, now)
        self._note(job, "claimed", {"worker": owner, "tries": job.tries, "was": was})

    def _holds(self, job: Record | None, ticket: Ticket) -> bool:
        return (
            job is not None
            and _is_of(job, ticket)
            and job.status is JobStatus.RUNNING
            and job.seq + 1 == ticket.seq
        )

    def commit(self, ticket: Ticket, progress: Progress) -> CommitAnswer:
        """See ``CheckpointStore.commit``."""
        with self._lock:
            job = self._find(ticket.job_id)
            if job is None or not _is_of(job, ticket) or job.status is not JobStatus.RUNNING:
                return "fenced"
            if job.seq == ticket.seq:
                return _wanted(job)
            if not self._holds(job, ticket):
                return "fenced"
            self._append(job, ticket, progress)
            job.desk.hear(progress.heard)
            self._note(job, progress.kind, progress.data)
            return _wanted(job)

    def begin_commit(
        self,
        ticket: Ticket,
        progress: Progress,
        before: Underway | None = None,  # noqa: ARG002 - it has arrived
    ) -> Underway:
        """See ``CheckpointStore.begin_commit``; here it has arrived at once."""
        answer = self.commit(ticket, progress)
        return lambda: answer

    def _append(self, job: Record, ticket: Ticket, progress: Progress) -> None:
        job.messages.extend(dumps(message) for message in progress.messages)
        job.seq, job.run, job.tries = ticket.seq, progress.run, 1
        if progress.consumes_signal:
            job.signal = job.pause = None

    def settle(
        self, ticket: Ticket, progress: Progress, settlement: Settlement
    ) -> JobStatus | None:
        """See ``CheckpointStore.settle``."""
        with self._lock:
            job = self._find(ticket.job_id)
            if job is None or not _is_of(job, ticket):
                return None
            if job.seq == ticket.seq and job.status is not JobStatus.RUNNING:
                return job.status
            if not self._holds(job, ticket):
                return None
            self._append(job, ticket, progress)
            self._transition(job, progress, settlement)
            return job.status

    def _transition(self, job: Record, progress: Progress, settlement: Settlement) -> None:
        now = self._clock()
        status, payload = settlement.status, settlement.payload
        kind, data = progress.kind, progress.data
        if job.cancel is not None:
            status, payload, kind, data = (
                JobStatus.CANCELLED,
                cancelled_outcome(*job.cancel),
                "cancelled",
                {},
            )
        job.hints = job.tries = 0
        job.due = now + settlement.delay_ms
        if status.ended:
            job.lease = 0 if settlement.left_to_hint else job.due
        else:
            job.free()
        if isinstance(payload, Outcome):
            job.end(status, payload, now)
        else:
            job.enter(status, now)
        if isinstance(payload, Pause):
            job.pause = payload
            job.desk.forget_pause()
            self._keep_time(job)
            if payload.kind is PauseKind.OPERATOR:
                job.desk.halt = None
        elif status is JobStatus.WAITING:
            job.awaits = kind == "awaiting"
            if job.awaits and job.woken:
                job.due = now
            job.due_at = job.due
        self._end_slice(job, settlement.steps, status)
        self._note(job, kind, data)
        self._tell_transition(job, settlement.channels)

    def _tell_transition(self, job: Record, channels: Sequence[str]) -> None:
        if job.status is JobStatus.PAUSED:
            self._pause_event(job, "paused")
            self._announce(job, channels, "paused")
        elif job.status.ended:
            assert job.outcome is not None
            reason = job.outcome.reason
            self._tell(job, told_as(job.status), {"reason": reason} if _failed(job) else {})

    def renew(self, leases: Sequence[tuple[str, int]], lease_ms: int) -> list[Renewal]:
        """See ``CheckpointStore.renew``."""
        with self._lock:
            return [self._renew(job_id, epoch, lease_ms) for job_id, epoch in leases]

    def _renew(self, job_id: str, epoch: int, lease_ms: int) -> Renewal:
        job = self._find(job_id)
        if job is None or job.epoch != epoch or job.nonce is None:
            return "lost"
        if job.status is not JobStatus.RUNNING:
            return "renewed"
        job.lease = self._clock() + lease_ms
        if job.due is not None:
            job.due = job.lease
        self._retake(job)
        if job.cancel is not None:
            return "cancel"
        crowded = job.place is not None and job.place.turn and self.turns.others_wait(job.place)
        return "crowded" if crowded else "renewed"

    def published(self, job_id: str, channels: Sequence[str] = ()) -> None:
        """See ``CheckpointStore.published``."""
        with self._lock:
            job = self._find(job_id)
            if job is not None and job.status.ended and not job.published:
                job.published, job.due = True, None
                job.free()
                job.expires = self._clock() + job.spec.retention_s * 1000
                self._announce(job, channels, told_as(job.status))

    def emit(self, job_id: str, epoch: int, records: Sequence[Mapping[str, Any]]) -> LiveAnswer:
        """See ``CheckpointStore.emit``."""
        with self._lock:
            job, now = self._find(job_id), self._clock()
            if job is None or job.epoch != epoch:
                return "fenced"
            if records and job.live_until <= now:
                job.live.clear()
            for record in records:
                record_id = next_id(job.live[-1].id if job.live else "0-0", now)
                job.live.append(LiveRecord(id=record_id, **json.loads(dumps(record))))
            del job.live[:-LIVE_LENGTH]
            job.live_until = now + LIVE_TTL_S * 1000 if records else job.live_until
            self._lock.notify_all()
            return "committed" if job.cancel is None else "cancel"

    def wake(self, job_id: str) -> JobSpec | None:
        """See ``CheckpointStore.wake``."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None:
                return None
            if job.status is JobStatus.WAITING and job.awaits:
                job.due = job.due_at = self._clock()
                job.hints = 0
                return job.spec
            job.woken = job.woken or job.status is JobStatus.RUNNING
            return None

    def missed(self, job_id: str) -> None:
        """See ``CheckpointStore.missed``."""
        with self._lock:
            job = self._find(job_id)
            if job is not None:
                job.missed = True

    def sweep(self, *, limit: int, grace_ms: int, cap_ms: int) -> list[Hint]:
        """See ``CheckpointStore.sweep``."""
        hints: list[Hint] = []
        with self._lock:
            looked_at = limit
            while looked_at == limit and len(hints) < limit:
                looked_at, found = self._sweep_once(limit, grace_ms, cap_ms)
                hints += found
        return hints

    def _sweep_once(self, limit: int, grace_ms: int, cap_ms: int) -> tuple[int, list[Hint]]:
        """How many jobs were due, and which are to be hinted."""
        now = self._clock()
        due = [job for job in self._all() if job.due is not None and job.due <= now]
        hints: list[Hint] = []
        chosen = sorted(due, key=lambda job: (job.due, job.spec.job_id))[:limit]
        for job in chosen:
            if job.lease > now:
                job.due = job.lease
                continue
            if self._lines_up_in_sweep(job):
                continue
            job.hints += 1
            wait = min(int(grace_ms * 2 ** min(job.hints - 1, 30)), cap_ms)
            if job.start_by is not None and job.start_by > now:
                wait = min(wait, job.start_by - now)
            job.due = now + wait
            stands = job.status is JobStatus.QUEUED and job.hints != SURELY_SENT and wait < cap_ms
            again = stands and not job.missed
            job.missed = False
            hints.append(Hint(job.spec, job.status, again))
        return len(chosen), [*hints, *self._sweep_lanes()]

    def abandon(
        self, owner_prefix: str, *, keep: str = "", job_id: str = "", delay_ms: int = 0
    ) -> list[JobSpec]:
        """See ``CheckpointStore.abandon``."""
        with self._lock:
            if job_id:
                one = self._find(job_id)
                looked_at = [one] if one is not None else []
            else:
                looked_at = [job for job in self._all() if job.status is JobStatus.RUNNING]
            freed = []
            for job in looked_at:
                owner = job.owner or ""
                dead = owner.startswith(owner_prefix) and not (keep and owner.startswith(keep))
                if owner and dead:
                    job.free()
                    self._step_out(job)
                    job.due = self._clock() + delay_ms
                    freed.append(job.spec)
            return freed

    def announce(self, agents: Sequence[AgentInfo]) -> None:
        """See ``CheckpointStore.announce``."""
        with self._lock:
            now = self._clock()
            for agent in agents:
                self._agents[agent.name] = agent.model_copy(update={"seen": now})


def _failed(job: Record) -> bool:
    return job.status is JobStatus.FAILED


def _is_of(job: Record, ticket: Ticket) -> bool:
    """Whether a ticket is of the job's last claim."""
    return job.epoch == ticket.epoch and ticket.nonce in ("", job.taken)


def _wanted(job: Record) -> CommitAnswer:
    """What callers want of a job that has just been committed."""
    if job.cancel is not None:
        return "cancel"
    if job.desk.halt is not None:
        return "halt"
    return "mail" if job.desk.mail else "committed"
