"""The store in memory: the same promises as on Redis, for tests and for running inline."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from api_client.contract import (
    SIGNAL,
    AgentInfo,
    AnsweredPause,
    Event,
    JobEvent,
    JobSpec,
    JobStatus,
    JobView,
    Outcome,
    Pause,
    PauseKind,
    Signal,
)
from api_client.errors import JobNotFound
from api_client.labels import may_answer
from api_client.live import LIVE_LENGTH, LIVE_TTL_S, LiveRecord
from api_client.records import check_offset, dumps, usage_of
from api_client.redis_store import FIRST_HINT_GRACE_MS
from api_client.refusals import cancelled_outcome, not_found, refusal
from api_client.runs import read_run
from api_client.store import Cancelled, Created
from worker.store.base import (
    Claim,
    Claimed,
    CommitAnswer,
    Hint,
    LiveAnswer,
    NotClaimed,
    Progress,
    Renewal,
    Settlement,
    Ticket,
    ToPublish,
)
from worker.store.memory_desk import DeskRecord, MemoryDesk
from worker.store.memory_posts import told_as
from worker.store.outcomes import expired_outcome, poison_outcome

Entry = TypeVar("Entry", Event, LiveRecord)


@dataclass(slots=True)
class _Record:
    spec: JobSpec
    created: int
    since: int
    due: int | None
    status: JobStatus = JobStatus.QUEUED
    epoch: int = 0
    seq: int = 0
    tries: int = 0
    hints: int = 0
    owner: str | None = None
    nonce: str | None = None
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


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class MemoryStore(MemoryDesk):
    """``CheckpointStore`` in a dict, behind one lock.

    Args:
        clock: milliseconds since the epoch; tests pass one that they move.
    """

    def __init__(self, clock: Callable[[], int] = wall_clock_ms) -> None:
        self._clock = clock
        self._lock = threading.Condition(threading.RLock())
        self._jobs: dict[str, _Record] = {}
        self._agents: dict[str, AgentInfo] = {}
        self._happened: list[JobEvent] = []

    def _find(self, job_id: str) -> _Record | None:
        job = self._jobs.get(job_id)
        if job is not None and job.expires is not None and job.expires <= self._clock():
            del self._jobs[job_id]
            return None
        return job

    def _get(self, job_id: str) -> _Record:
        job = self._find(job_id)
        if job is None:
            raise not_found(job_id)
        return job

    def _all(self) -> list[_Record]:
        found = (self._find(job_id) for job_id in list(self._jobs))
        return [job for job in found if job is not None]

    def _note(self, job: _Record, kind: str, data: dict[str, Any]) -> None:
        event_id = _next_id(job.trace[-1].id if job.trace else "0-0", self._clock())
        job.trace.append(Event(id=event_id, kind=kind, data=json.loads(dumps(data))))
        self._lock.notify_all()

    # --- callers ---------------------------------------------------------------------------

    def create(self, spec: JobSpec, delay_ms: int = 0) -> Created:
        """See ``JobStore.create``."""
        with self._lock:
            if stored := self._find(spec.job_id):
                return Created(stored.spec, new=False)
            now = self._clock()
            job = _Record(spec, created=now, since=now, due=now + FIRST_HINT_GRACE_MS)
            if delay_ms:
                job.status, job.due, job.due_at = JobStatus.WAITING, now + delay_ms, now + delay_ms
            if spec.start_within_ms is not None:
                job.start_by = now + spec.start_within_ms
                job.due = min(job.due or job.start_by, job.start_by)
            self._jobs[spec.job_id] = job
            self._note(job, "submitted", {})
            return Created(spec, new=True)

    def read(self, job_id: str) -> JobView:
        """See ``JobStore.read``."""
        with self._lock:
            return self._view(self._get(job_id))

    def _view(self, job: _Record) -> JobView:
        run = read_run(job.run) if job.run else {}
        return JobView(
            spec=job.spec,
            status=job.status,
            created=job.created,
            epoch=job.epoch,
            tries=job.tries,
            steps=run.get("steps", 0),
            usage=usage_of(run),
            active_ms=run.get("active_ms", 0),
            granted=run.get("granted", {}),
            worker=job.owner,
            due=job.due_at,
            children=tuple(run.get("children", ())),
            pause=self._standing(job),
            answered=job.answered,
            outcome=job.outcome,
            cancel_requested=job.cancel is not None,
            pause_wanted=job.desk.halt,
            unheard=len(job.desk.mail),
            published=job.published,
        )

    def messages(self, job_id: str, start: int = 0) -> list[dict[str, Any]]:
        """See ``JobStore.messages``."""
        with self._lock:
            job = self._find(job_id)
            return [json.loads(text) for text in job.messages[start:]] if job else []

    def events(
        self, job_id: str, after: str = "0", count: int = 1000, block_s: float = 0.0
    ) -> list[Event]:
        """See ``JobStore.events``."""
        return self._stream(job_id, lambda job: job.trace, after, count, block_s)

    def live(
        self, job_id: str, after: str = "0", count: int = 1000, block_s: float = 0.0
    ) -> list[LiveRecord]:
        """See ``JobStore.live``."""

        def kept(job: _Record) -> list[LiveRecord]:
            return job.live if job.live_until > self._clock() else []

        return self._stream(job_id, kept, after, count, block_s)

    def _stream(
        self,
        job_id: str,
        entries: Callable[[_Record], Sequence[Entry]],
        after: str,
        count: int,
        block_s: float,
    ) -> list[Entry]:
        """Entries behind an offset; waits for the first."""
        check_offset(after)
        if count < 1:
            return []
        deadline = time.monotonic() + block_s
        with self._lock:
            while True:
                job = self._find(job_id)
                found = [e for e in entries(job) if _order(e.id) > _order(after)] if job else []
                left = deadline - time.monotonic()
                if found or left <= 0:
                    return found[:count]
                self._lock.wait(left)

    def signal(
        self,
        job_id: str,
        pause_id: str,
        signal: Signal,
        signal_id: str,
        labels: Collection[str] | None = None,
    ) -> None:
        """See ``JobStore.signal``."""
        with self._lock:
            job = self._get(job_id)
            if job.answered is not None and job.answered.pause_id == pause_id:
                if job.answered_id == signal_id:
                    return
                detail = job.answered.model_dump_json()
                raise refusal(job_id, pause_id, signal.kind, "answered", detail)
            if job.status is not JobStatus.PAUSED or job.pause is None:
                raise refusal(job_id, pause_id, signal.kind, "not_paused", job.status)
            if job.pause.id != pause_id:
                raise refusal(job_id, pause_id, signal.kind, "wrong_pause", job.pause.id)
            wanted = job.pause.labels if job.desk.labels is None else job.desk.labels
            if not may_answer(wanted, labels):
                raise refusal(job_id, pause_id, signal.kind, "not_allowed", ", ".join(wanted))
            if signal.kind not in job.pause.accepts:
                accepts = ", ".join(job.pause.accepts)
                raise refusal(job_id, pause_id, signal.kind, "refused", accepts)
            now = self._clock()
            kind = job.pause.kind
            job.desk.forget_pause()
            if signal.kind == "cancel":
                job.cancel = (signal.by, signal.note)
            job.signal, job.answered_id = signal.model_dump_json(), signal_id
            job.answered = AnsweredPause(pause_id=pause_id, by=signal.by, kind=signal.kind, at=now)
            job.enter(JobStatus.QUEUED, now)
            job.hints = job.tries = 0
            job.due = now + FIRST_HINT_GRACE_MS
            self._note(job, "signal", signal.model_dump(mode="json"))
            told = {"pause": pause_id, "kind": kind, "signal": signal.kind, "by": signal.by}
            self._tell(job, "resumed", told)

    def cancel(self, job_id: str, by: str = "", note: str = "") -> Cancelled:
        """See ``JobStore.cancel``."""
        with self._lock:
            job, now = self._get(job_id), self._clock()
            if job.status.ended:
                return Cancelled(job.status, pending=False)
            if job.cancel is None:
                job.cancel = (by, note)
                self._note(job, "cancel", {"by": by, "note": note})
            if job.status is JobStatus.RUNNING and job.lease > now:
                return Cancelled(JobStatus.RUNNING, pending=True)
            job.epoch += 1
            job.due, job.hints = now, 0
            job.free()
            job.desk.forget_pause()
            job.end(JobStatus.CANCELLED, cancelled_outcome(*job.cancel), now)
            self._note(job, "cancelled", {})
            self._tell(job, "cancelled", {"by": by, "note": note})
            return Cancelled(JobStatus.CANCELLED, pending=False)

    def list_jobs(
        self, status: JobStatus, limit: int = 100, newest_first: bool = False
    ) -> list[JobView]:
        """See ``JobStore.list_jobs``."""
        with self._lock:
            found = [job for job in self._all() if job.status is status]
            found.sort(key=lambda job: (job.since, job.spec.job_id), reverse=newest_first)
            return [self._view(job) for job in found[: max(limit, 0)]]

    def count(self, status: JobStatus) -> int:
        """See ``JobStore.count``."""
        with self._lock:
            return sum(job.status is status for job in self._all())

    def agents(self) -> list[AgentInfo]:
        """See ``JobStore.agents``."""
        with self._lock:
            return [self._agents[name] for name in sorted(self._agents)]

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
            if job.nonce != nonce:
                refused = self._refused(job, max_tries, wary_of)
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
                messages=[json.loads(text) for text in job.messages],
                run=job.run,
                pause=job.pause if job.signal is not None else None,
                signal=None if job.signal is None else SIGNAL.validate_json(job.signal),
                was=was,
                waited_ms=waited_ms,
                mail=tuple(job.desk.mail),
                halt=job.desk.halt,
            )

    def _before_claim(self, job: _Record, nonce: str) -> tuple[JobStatus | None, int | None]:
        """The status that a new claim finds, and for how long the job could have been claimed."""
        if job.nonce == nonce:
            return None, None
        now = self._clock()
        since = job.due_at if job.status is JobStatus.WAITING else job.since
        if job.status is JobStatus.RUNNING or since is None:
            since = now
        return job.status, max(0, now - since)

    def _refused(self, job: _Record, max_tries: int, wary_of: int) -> NotClaimed | None:
        now = self._clock()
        if job.lease > now:
            return NotClaimed("busy", job.owner or "")
        if self._expired(job):
            return None
        if job.status is JobStatus.WAITING and (job.due_at or 0) > now:
            return NotClaimed("not_due", str(job.due_at))
        runs_on = not job.status.ended and job.cancel is None
        if runs_on and 0 < wary_of <= job.tries < max_tries:
            job.hints = 0
            return NotClaimed("suspect", str(job.tries))
        return None

    def _expired(self, job: _Record) -> bool:
        """Whether it was to begin by a certain time, and nobody has begun it."""
        begun = job.epoch > 0 or job.status.ended
        return not begun and job.start_by is not None and job.start_by <= self._clock()

    def _take(self, job: _Record, owner: str, nonce: str, lease_ms: int, max_tries: int) -> None:
        now = self._clock()
        expired = self._expired(job)
        job.epoch += 1
        job.owner, job.nonce, job.lease, job.hints = owner, nonce, now + lease_ms, 0
        job.due = job.lease
        if not job.status.ended and (job.cancel is not None or expired):
            outcome = cancelled_outcome(*job.cancel) if job.cancel else expired_outcome()
            job.end(JobStatus.CANCELLED, outcome, now)
            self._note(job, "cancelled", {})
            self._tell(job, "cancelled", {})
        elif not job.status.ended:
            self._start(job, owner, max_tries, now)

    def _start(self, job: _Record, owner: str, max_tries: int, now: int) -> None:
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

    def _holds(self, job: _Record | None, ticket: Ticket) -> bool:
        return (
            job is not None
            and job.epoch == ticket.epoch
            and job.status is JobStatus.RUNNING
            and job.seq + 1 == ticket.seq
        )

    def commit(self, ticket: Ticket, progress: Progress) -> CommitAnswer:
        """See ``CheckpointStore.commit``."""
        with self._lock:
            job = self._find(ticket.job_id)
            if job is None or job.epoch != ticket.epoch or job.status is not JobStatus.RUNNING:
                return "fenced"
            if job.seq == ticket.seq:
                return _wanted(job)
            if not self._holds(job, ticket):
                return "fenced"
            self._append(job, ticket, progress)
            job.desk.hear(progress.heard)
            self._note(job, progress.kind, progress.data)
            return _wanted(job)

    def begin_commit(self, ticket: Ticket, progress: Progress) -> Callable[[], CommitAnswer]:
        """See ``CheckpointStore.begin_commit``; here it has arrived at once."""
        answer = self.commit(ticket, progress)
        return lambda: answer

    def _append(self, job: _Record, ticket: Ticket, progress: Progress) -> None:
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
            if job is None or job.epoch != ticket.epoch:
                return None
            if job.seq == ticket.seq and job.status is not JobStatus.RUNNING:
                return job.status
            if not self._holds(job, ticket):
                return None
            self._append(job, ticket, progress)
            self._transition(job, progress, settlement)
            return job.status

    def _transition(self, job: _Record, progress: Progress, settlement: Settlement) -> None:
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
            job.lease = job.due
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
        self._note(job, kind, data)
        self._tell_transition(job, settlement.channels)

    def _tell_transition(self, job: _Record, channels: Sequence[str]) -> None:
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
        job.lease = self._clock() + lease_ms
        if job.due is not None:
            job.due = job.lease
        return "renewed" if job.cancel is None else "cancel"

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
                record_id = _next_id(job.live[-1].id if job.live else "0-0", now)
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

    def sweep(self, *, limit: int, grace_ms: int, cap_ms: int) -> list[Hint]:
        """See ``CheckpointStore.sweep``."""
        with self._lock:
            now = self._clock()
            due = [job for job in self._all() if job.due is not None and job.due <= now]
            hints: list[Hint] = []
            for job in sorted(due, key=lambda job: (job.due, job.spec.job_id))[:limit]:
                if job.lease > now:
                    job.due = job.lease
                    continue
                job.hints += 1
                job.due = now + min(int(grace_ms * 2 ** min(job.hints - 1, 30)), cap_ms)
                if job.start_by is not None and job.start_by > now:
                    job.due = min(job.due, job.start_by)
                hints.append(Hint(job.spec, job.status))
            return hints

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
                    job.due = self._clock() + delay_ms
                    freed.append(job.spec)
            return freed

    def announce(self, agents: Sequence[AgentInfo]) -> None:
        """See ``CheckpointStore.announce``."""
        with self._lock:
            now = self._clock()
            for agent in agents:
                self._agents[agent.name] = agent.model_copy(update={"seen": now})


def _failed(job: _Record) -> bool:
    return job.status is JobStatus.FAILED


def _wanted(job: _Record) -> CommitAnswer:
    """What callers want of a job that has just been committed."""
    if job.cancel is not None:
        return "cancel"
    if job.desk.halt is not None:
        return "halt"
    return "mail" if job.desk.mail else "committed"


def _next_id(last: str, now: int) -> str:
    """The id of the next entry of a stream: later than the last, and not before ``now``."""
    stamp, number = _order(last)
    return f"{stamp}-{number + 1}" if stamp >= now else f"{now}-0"


def _order(event_id: str) -> tuple[int, int]:
    first, _, second = event_id.partition("-")
    return int(first), int(second or 0)
