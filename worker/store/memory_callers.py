"""The store in memory as callers see it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from api_client.contract import (
    AgentInfo,
    AnsweredPause,
    Event,
    JobEvent,
    JobSpec,
    JobStatus,
    JobView,
    Signal,
)
from api_client.labels import may_answer
from api_client.live import LiveRecord
from api_client.records import check_offset, dumps, usage_of
from api_client.redis_store import FIRST_HINT_GRACE_MS
from api_client.refusals import cancelled_outcome, not_found, refusal
from api_client.room import check_quota
from api_client.runs import read_run
from api_client.store import Cancelled, Created
from api_client.workers import WorkerInfo
from worker.store.memory_backlogs import MemoryBacklogs
from worker.store.memory_record import Record, next_id, order_of

Entry = TypeVar("Entry", Event, LiveRecord)


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class MemoryCallers(MemoryBacklogs):
    """``JobStore`` in a dict, behind one lock.

    Args:
        clock: milliseconds since the epoch; tests pass one that they move.
    """

    def __init__(self, clock: Callable[[], int] = wall_clock_ms) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Condition(threading.RLock())
        self._jobs: dict[str, Record] = {}
        self._agents: dict[str, AgentInfo] = {}
        self._happened: list[JobEvent] = []
        self._held: dict[str, int] = {}
        self._beats: dict[str, WorkerInfo] = {}

    def _find(self, job_id: str) -> Record | None:
        job = self._jobs.get(job_id)
        if job is not None and job.expires is not None and job.expires <= self._clock():
            del self._jobs[job_id]
            self._held.pop(job_id, None)
            return None
        return job

    def _get(self, job_id: str) -> Record:
        job = self._find(job_id)
        if job is None:
            raise not_found(job_id)
        return job

    def _all(self) -> list[Record]:
        found = (self._find(job_id) for job_id in list(self._jobs))
        return [job for job in found if job is not None]

    def _note(self, job: Record, kind: str, data: dict[str, Any]) -> None:
        event_id = next_id(job.trace[-1].id if job.trace else "0-0", self._clock())
        job.trace.append(Event(id=event_id, kind=kind, data=json.loads(dumps(data))))
        self._lock.notify_all()

    # --- callers ---------------------------------------------------------------------------

    def create(self, spec: JobSpec, delay_ms: int = 0, *, arrived: bool = False) -> Created:
        """See ``JobStore.create``."""
        with self._lock:
            if stored := self._find(spec.job_id):
                held = stored.place is not None and stored.place.turn == "ready"
                return Created(stored.spec, new=False, held=held)
            self._check_backlog(spec)
            if spec.tenant and not spec.parent:
                check_quota(spec.tenant, self._held_by(spec.tenant))
            now = self._clock()
            job = Record(spec, created=now, since=now, due=now + FIRST_HINT_GRACE_MS)
            if delay_ms:
                job.status, job.due, job.due_at = JobStatus.WAITING, now + delay_ms, now + delay_ms
            if spec.start_within_ms is not None:
                job.start_by = now + spec.start_within_ms
                job.due = min(job.due or job.start_by, job.start_by)
            job.place = self._place(spec, now)
            self._jobs[spec.job_id] = job
            self._note(job, "submitted", {})
            self.hold(spec, len(spec.model_dump_json(exclude_defaults=True)))
            return Created(spec, new=True, held=not arrived and self._arrive(job))

    def hold(self, spec: JobSpec, size: int) -> None:
        """See ``JobStore.hold``."""
        with self._lock:
            self._held[spec.job_id] = size

    def _held_by(self, tenant: str) -> int:
        jobs = [job for job in self._all() if job.spec.tenant == tenant]
        return sum(self._held.get(job.spec.job_id, 0) for job in jobs)

    def read(self, job_id: str) -> JobView:
        """See ``JobStore.read``."""
        with self._lock:
            return self._view(self._get(job_id))

    def _view(self, job: Record) -> JobView:
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

        def kept(job: Record) -> list[LiveRecord]:
            return job.live if job.live_until > self._clock() else []

        return self._stream(job_id, kept, after, count, block_s)

    def _stream(
        self,
        job_id: str,
        entries: Callable[[Record], Sequence[Entry]],
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
                found = [e for e in entries(job) if order_of(e.id) > order_of(after)] if job else []
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
            self._step_out(job)
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
