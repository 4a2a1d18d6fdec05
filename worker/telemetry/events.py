"""Events of jobs on Celery's event bus: what each says, and the observer that tells of steps.

``celery events``, Flower and exporters make a task's state of the last event's name: ``task-step``
would show a running job as STEP. And a name that they do not know outranks STARTED and REVOKED, so
that what Celery itself sends afterwards changes nothing. So each event that is no state of its own
is followed, in one message, by one that puts the true state back: ``task-STARTED``. It is read as
that state, and counted by nobody as a start. What ends a job carries its state as a field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import states

from api_client.contract import JobSpec, Pause
from worker.ends import Deferred, Suspended
from worker.redact import Redactor
from worker.telemetry.observer import Committed, JobResumed, Moment, Observer, SliceEnded

Event = tuple[str, dict[str, Any]]
"""Its type and its fields, which are JSON values."""

MAX_QUESTION = 500
_REDACTOR = Redactor()

_ENDS = frozenset({"finished", "failed"})
"""Kinds of commits behind which a job has its outcome."""

STEP, PAUSED, RESUMED = "task-step", "task-paused", "task-resumed"
SHOWS_RUNNING = f"task-{states.STARTED}"
SHOW_RETRY = ("task-retried", f"task-{states.RETRY}")

OF_ALL = {
    "uuid": "the job's id",
    "name": "its Celery task, `agent.NAME`",
    "agent": "its agent's name",
    "step": "model replies so far",
    "tokens": "input and output tokens so far",
}
FIELDS: dict[str, dict[str, str]] = {
    STEP: {
        **OF_ALL,
        "prompt_tokens": "input tokens of this step",
        "completion_tokens": "output tokens of this step",
        "cost": "money for this step, in the currency of the agent's price; 0 without one",
        "model": "that was asked, by its name",
    },
    PAUSED: {
        **OF_ALL,
        "pause_id": "to be named in a signal",
        "kind": "of the pause, such as `approval`",
        "question": f"to a person, its first {MAX_QUESTION} characters",
    },
    RESUMED: {
        **OF_ALL,
        "pause_id": "that was answered",
        "kind": "of that pause",
        "signal": "the kind of the answer, such as `approve`",
    },
}
"""The fields of our own events, and what they mean; Celery adds its own to each."""


def _of(spec: JobSpec, step: int, tokens: int) -> dict[str, Any]:
    return {
        "uuid": spec.job_id,
        "name": f"agent.{spec.agent}",
        "agent": spec.agent,
        "step": step,
        "tokens": tokens,
    }


def state_shown(job_id: str, state: str) -> Event:
    """What makes monitors show a state, whatever they show now, and count nothing."""
    return f"task-{state}", {"uuid": job_id, "state": state}


def stepped(moment: Committed) -> tuple[Event, ...]:
    """A model reply has been committed; behind the last one comes Celery's own word of the end."""
    spent = moment.spent
    fields = {
        **_of(moment.place.spec, moment.step, moment.tokens),
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "cost": spent.cost_micros / 1e6,
        "model": moment.model,
    }
    if moment.kind in _ENDS:
        return ((STEP, fields),)
    return (STEP, fields), state_shown(moment.place.spec.job_id, states.STARTED)


def paused(moment: SliceEnded, pause: Pause) -> Event:
    """A job waits for a person."""
    question = pause.question
    if len(question) > MAX_QUESTION:
        question = f"{question[:MAX_QUESTION]}…"
    fields = _of(moment.place.spec, moment.step, moment.tokens)
    return PAUSED, {**fields, "pause_id": pause.id, "kind": str(pause.kind), "question": question}


def resumed(moment: JobResumed) -> tuple[Event, ...]:
    """A job that a person has answered goes on."""
    fields = {
        **_of(moment.place.spec, moment.step, moment.tokens),
        "pause_id": moment.pause.id,
        "kind": str(moment.pause.kind),
        "signal": moment.signal.kind,
    }
    return (RESUMED, fields), state_shown(moment.place.spec.job_id, states.STARTED)


def deferred(moment: SliceEnded, end: Deferred) -> Event:
    """A job waits for its model: Celery's own event of a retry, unless nothing was tried."""
    job_id = end.spec.job_id
    if not end.attempt:
        return state_shown(job_id, states.RETRY)
    fields = _of(end.spec, moment.step, moment.tokens)
    return SHOW_RETRY[0], {**fields, "exception": _REDACTOR.error(end.text), "traceback": ""}


def revoked(job_id: str) -> Event:
    """A job was cancelled: Celery's own event, with its state, or else PAUSED would stay."""
    how = {"terminated": False, "signum": None, "expired": False}
    return "task-revoked", {"uuid": job_id, "state": states.REVOKED, **how}


class EventObserver(Observer):
    """Tells of steps, pauses, retries and resumes.

    Args:
        wanted: whether somebody listens; asked first, so that nobody pays for nothing.
        send: takes events that belong together; must not block.
    """

    heeds = frozenset({Committed, SliceEnded, JobResumed})

    def __init__(self, wanted: Callable[[], bool], send: Callable[..., object]) -> None:
        self._wanted = wanted
        self._send = send

    def note(self, moment: Moment) -> None:
        """See ``Observer.note``."""
        match moment:
            case Committed(replied=True) if self._wanted():
                self._send(*stepped(moment))
            case SliceEnded(end=Suspended(pause=pause)) if self._wanted():
                self._send(paused(moment, pause))
            case SliceEnded(end=Deferred() as end) if self._wanted():
                self._send(deferred(moment, end))
            case JobResumed() if self._wanted():
                self._send(*resumed(moment))
