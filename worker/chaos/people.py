"""The people of a chaos run: they answer pauses and cancel jobs, each of them twice at once.

Anna and Ben see the same pause and decide at the same moment, each with an answer of their own.
A call in doubt is answered as a careful person would: by looking into the ledger, and not before
anything that was under way at that moment must have come to rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import Any

from api_client.contract import (
    Answer,
    DidNotHappen,
    Happened,
    JobStatus,
    JobView,
    Pause,
    PauseKind,
    Retry,
    Signal,
)
from api_client.errors import Conflict
from worker.chaos.field import Field
from worker.chaos.plan import PlannedJob
from worker.chaos.script import human_token, place_of_question, token

PEOPLE = ("anna", "ben")
REST_MS = 500
_AT_ONCE = 16


class People:
    """Anna and Ben.

    Attributes:
        signals: sent, not counting those sent again because Redis did not answer.
        refused: of these, the ones that came second.
        cancels: sent.
    """

    def __init__(self, field: Field) -> None:
        self._field = field
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="chaos-people")
        self._seen: set[tuple[str, str]] = set()
        self._sending: list[Future[bool]] = []
        self._to_cancel = [job for job in field.plan.jobs if job.cancel_at is not None]
        self.signals = 0
        self.refused = 0
        self.cancels = 0

    def work(self) -> None:
        """Watch the inbox until the run is over."""
        try:
            with self._field.until_over():
                while True:
                    self._answer_inbox()
                    self._cancel_due()
                    self._count()
                    self._field.pause()
        finally:
            self._pool.shutdown(cancel_futures=True)

    # --- answering -------------------------------------------------------------------------

    def _answer_inbox(self) -> None:
        now_ms = time.time() * 1000
        for view in self._field.listed(JobStatus.PAUSED):
            pause, job = view.pause, self._field.jobs.get(view.job_id)
            if pause is None or job is None or (view.job_id, pause.id) in self._seen:
                continue
            if not job.answered and pause.kind is PauseKind.HAND_TO_HUMAN:
                continue
            if now_ms - pause.created >= REST_MS:
                self._answer(view, pause)

    def _answer(self, view: JobView, pause: Pause) -> None:
        """Send both answers, at the same moment."""
        both = Barrier(len(PEOPLE))
        self._seen.add((view.job_id, pause.id))
        self._sending += [
            self._pool.submit(self._send, view.job_id, pause.id, self._decide(pause, by), both)
            for by in PEOPLE
        ]

    def _decide(self, pause: Pause, by: str) -> Signal:
        match pause.kind:
            case PauseKind.HAND_TO_HUMAN:
                value = human_token(place_of_question(pause.question), by)
                return Answer(value=value, by=by)
            case PauseKind.UNKNOWN_OUTCOME:
                return self._look_up(pause, by)
        return Retry(by=by, note=f"unexpected here: {pause.kind}")

    def _look_up(self, pause: Pause, by: str) -> Signal:
        assert pause.action is not None
        if not self._field.ledger.has(str(pause.details["idempotency_key"])):
            return DidNotHappen(by=by)
        place = str(pause.action.arguments["place"])
        return Happened(result=token(pause.action.tool, place), by=by)

    def _send(self, job_id: str, pause_id: str, signal: Signal, both: Barrier) -> bool:
        """Whether the signal was accepted; a repetition of it has the same id."""
        both.wait(timeout=60)
        signal_id = f"{signal.by}-{pause_id}"
        return self._accepted(
            lambda: self._field.client.signal(
                job_id, signal, pause_id=pause_id, signal_id=signal_id
            )
        )

    def _accepted(self, send: Callable[[], Any]) -> bool:
        try:
            self._field.patiently(send)
        except Conflict:
            return False
        return True

    def _count(self) -> None:
        """Take in what has been sent; raises whatever a sender could not deal with."""
        done = [future for future in self._sending if future.done()]
        self._sending = [future for future in self._sending if not future.done()]
        self.signals += len(done)
        self.refused += sum(not future.result() for future in done)

    # --- cancelling ------------------------------------------------------------------------

    def _cancel_due(self) -> None:
        self._to_cancel = [job for job in self._to_cancel if not self._cancelled(job)]

    def _cancelled(self, job: PlannedJob) -> bool:
        """Cancel a job whose time has come; whether it had."""
        job_id = self._field.ids.get(job.number)
        if job_id is None or job.cancel_at is None:
            return False
        view = self._field.patiently(lambda: self._field.store.read(job_id))
        if view.steps < job.cancel_at and not view.status.ended:
            return False
        self._cancel(job_id)
        return True

    def _cancel(self, job_id: str) -> None:
        cancel = self._field.client.cancel
        sent = [
            self._pool.submit(self._field.patiently, lambda by=by: cancel(job_id, by=by))
            for by in PEOPLE
        ]
        for future in sent:
            future.result()
        self.cancels += len(sent)
