"""What the end of a slice becomes in the store: the trace record, and the settlement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from api_client.contract import JobStatus, Outcome
from worker.effects import Awaiting, Backoff, End, Failed, Finished, Paused
from worker.store.base import Settlement

if TYPE_CHECKING:
    from worker.runner import RunnerSettings

AWAITING = "awaiting"
"""The kind of commit with which a job begins to wait for sub-jobs; ``settle.lua`` knows it."""

HELD_BACK = "held_back"
"""The trace record of a slice that ended because a model's shared limit was used up."""

AWAIT_POLL_MS = 30_000
"""When a job that waits for sub-jobs looks by itself, should nobody have woken it."""


def ended(status: JobStatus, outcome: Outcome, settings: RunnerSettings) -> Settlement:
    """A job has its outcome."""
    if settings.publishes:
        return Settlement(status, outcome, settings.publish_grace_ms)
    return Settlement(status, outcome, settings.hint_grace_ms, left_to_hint=True)


def settlement_of(
    end: End, settings: RunnerSettings, channels: Callable[[], Sequence[str]]
) -> tuple[str, dict[str, Any], Settlement]:
    """Kind and data of the trace record, and the settlement.

    Args:
        channels: on which a pause is announced.
    """
    match end:
        case Finished(value=value, data=data):
            outcome = Outcome(ok=True, value=value)
            return "finished", data, ended(JobStatus.SUCCEEDED, outcome, settings)
        case Failed(reason=reason, text=text, data=data):
            outcome = Outcome(ok=False, reason=reason, text=text)
            data = {**data, "reason": reason, "text": text}
            return "failed", data, ended(JobStatus.FAILED, outcome, settings)
        case Paused(pause=pause):
            data = {"pause": pause.id, "kind": pause.kind, "question": pause.question}
            return "paused", data, Settlement(JobStatus.PAUSED, pause, channels=channels())
        case Awaiting(jobs=jobs):
            waiting = Settlement(JobStatus.WAITING, delay_ms=AWAIT_POLL_MS)
            return AWAITING, {"jobs": list(jobs)}, waiting
        case Backoff(seconds=seconds, text=text, attempt=attempt):
            data = {"in_s": round(seconds, 3), "text": text, "attempt": attempt}
            delay = Settlement(JobStatus.WAITING, delay_ms=int(seconds * 1000))
            return "retry" if attempt else HELD_BACK, data, delay
