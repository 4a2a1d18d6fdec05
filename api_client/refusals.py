"""Sentences about jobs that both stores say, and the errors that carry them."""

from __future__ import annotations

from datetime import UTC, datetime

from api_client.contract import AnsweredPause, JobView, Outcome
from api_client.errors import (
    AlreadyAnswered,
    Conflict,
    JobNotFound,
    JobUnreadable,
    NotAllowed,
    NotPaused,
    SignalRefused,
    WrongPause,
    shorten,
)


def cancelled_outcome(by: str, note: str) -> Outcome:
    """The outcome of a job that a person has cancelled."""
    return Outcome(ok=False, reason="cancelled", text=cancelled_text(by, note))


def cancelled_text(by: str, note: str) -> str:
    """Why a job ended as cancelled: ``cancelled by anna: sent twice``."""
    return "cancelled" + (f" by {by}" if by else "") + (f": {note}" if note else "")


def not_found(job_id: str) -> JobNotFound:
    """There is no such job."""
    return JobNotFound(
        f"no job {shorten(job_id)}: it was never accepted here, or its retention has passed"
    )


def unreadable(job_id: str, what: str, why: str) -> JobUnreadable:
    """Something that is stored of a job cannot be read.

    Args:
        what: ``record`` or ``message 3``.
        why: in one line.
    """
    return JobUnreadable(f"job {job_id}: its {what} cannot be read: {why}")


def refusal(
    job_id: str, pause_id: str, kind: str, why: str, detail: str = ""
) -> Conflict | JobNotFound:
    """The error for a signal that closed no pause.

    Args:
        kind: of the signal.
        why: ``missing``, ``answered``, ``wrong_pause``, ``not_allowed``, ``refused`` or
            ``not_paused``.
        detail: what the store says to that: the closing answer as JSON, the open pause's id, its
            labels, the accepted kinds, or the job's status.
    """
    match why:
        case "missing":
            return not_found(job_id)
        case "answered":
            return _already_answered(job_id, AnsweredPause.model_validate_json(detail))
        case "wrong_pause":
            return WrongPause(
                f"job {job_id}: pause {shorten(pause_id)} is not the open one; answer {detail!r}"
            )
        case "not_allowed":
            return NotAllowed(
                f"job {job_id}: this pause is for people with one of the labels: {detail}"
            )
        case "refused":
            return SignalRefused(f"job {job_id}: this pause takes no {kind!r}, but: {detail}")
    return NotPaused(f"job {job_id} is {detail}, not paused; there is nothing to answer")


def not_paused(view: JobView) -> NotPaused:
    """The error for a signal to a job without an open pause; says who answered its last one."""
    text = f"job {view.job_id} is {view.status}, not paused; there is nothing to answer"
    if view.answered is not None:
        text += f" (its last pause was answered by {_how(view.answered)})"
    return NotPaused(text)


def not_told(job_id: str, why: str, detail: str = "") -> Conflict | JobNotFound:
    """The error for a message or a wish to pause that a job cannot take.

    Args:
        why: ``missing``, ``ended``, ``paused`` or ``full``.
        detail: the status it ended in, or how many messages wait.
    """
    match why:
        case "missing":
            return not_found(job_id)
        case "ended":
            return Conflict(f"job {job_id} has ended ({detail}); it hears nothing any more")
        case "full":
            return Conflict(f"job {job_id}: {detail} messages wait already; nothing was added")
    return Conflict(f"job {job_id} is paused already; answer its pause, or cancel it")


def _already_answered(job_id: str, answered: AnsweredPause) -> AlreadyAnswered:
    return AlreadyAnswered(f"job {job_id}: this pause was answered by {_how(answered)}")


def _how(answered: AnsweredPause) -> str:
    """Who it was, with which decision, and when."""
    when = datetime.fromtimestamp(answered.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{answered.by or 'somebody who gave no name'} ({answered.kind}) at {when}"
