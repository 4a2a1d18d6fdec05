"""The pauses a job can make: which signals each takes, who may answer, and by when.

Agent(
    name="refunds",
    labels=("support",),
    pause_deadline_s=24 * 3600,
    on_deadline=Escalate(("leads",), within_s=4 * 3600, then=Reject(reason="too late")),
)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api_client.contract import (
    Answer,
    Appointment,
    Approve,
    Cancel,
    Decide,
    DidNotHappen,
    Edit,
    Extend,
    Fail,
    Finish,
    Happened,
    Pause,
    PauseKind,
    ProposedAction,
    Reject,
    Retry,
    Signal,
)
from api_client.signals import BY_DEADLINE
from worker.errors import AgentDefinitionError

ALWAYS = ("edit", "fail", "cancel")
"""Signals that every pause takes."""

ACCEPTS: dict[PauseKind, tuple[str, ...]] = {
    PauseKind.HAND_TO_HUMAN: ("answer", "finish", *ALWAYS),
    PauseKind.APPROVAL: ("approve", "reject", "finish", *ALWAYS),
    PauseKind.BUDGET: ("extend", "finish", *ALWAYS),
    PauseKind.REPEATED_ACTION: ("retry", "answer", "finish", *ALWAYS),
    PauseKind.MODEL_ERROR: ("retry", "finish", *ALWAYS),
    PauseKind.UNKNOWN_OUTCOME: ("happened", "did_not_happen", "finish", *ALWAYS),
    PauseKind.VERSION_CHANGE: ("retry", "finish", *ALWAYS),
    PauseKind.OPERATOR: ("retry", "finish", *ALWAYS),
}

_DECISIONS = (
    Answer,
    Approve,
    Reject,
    Decide,
    Extend,
    Finish,
    Retry,
    Happened,
    DidNotHappen,
    Edit,
    Fail,
    Cancel,
)
_TOO_LATE = Fail(reason="nobody answered in time")


@dataclass(frozen=True, slots=True)
class Escalate:
    """At the deadline, ask other people.

    Attributes:
        labels: who may answer from then on.
        within_s: seconds until the next deadline; as long as before, if not given.
        times: how often these people are asked before ``then``.
        then: what happens when they have not answered either; the job fails, if not given.
    """

    labels: Sequence[str]
    within_s: float | None = None
    times: int = 1
    then: OnDeadline = None

    def __post_init__(self) -> None:
        _check_labels(self.labels)
        if not self.labels:
            raise AgentDefinitionError("Escalate: labels name nobody; give at least one")
        _check_seconds("Escalate: within_s", self.within_s)
        if self.times < 1:
            raise AgentDefinitionError(f"Escalate: times={self.times} must be 1 or more")
        _check_choice(self.then)


Choice = Signal | Escalate
OnDeadline = Choice | Sequence[Choice] | None


@dataclass(frozen=True, slots=True)
class PausePolicy:
    """Who may answer a pause, and what happens if nobody does.

    Attributes:
        labels: people with one of them may answer, besides those with a label of the job.
        deadline_s: seconds after which ``on_deadline`` happens; people have all the time there
            is, if not given.
        on_deadline: a signal, ``Escalate``, or several of them: the first that the pause takes.
            If it takes none of them, or none is given, the job fails.
        remind_after_s: seconds after which people are reminded, each time they have been asked.
    """

    labels: Sequence[str] = ()
    deadline_s: float | None = None
    on_deadline: OnDeadline = None
    remind_after_s: Sequence[float] = ()

    def __post_init__(self) -> None:
        _check_labels(self.labels)
        _check_seconds("deadline_s", self.deadline_s)
        for seconds in self.remind_after_s:
            _check_seconds("remind_after_s", seconds)
        _check_choice(self.on_deadline)
        if self.on_deadline is not None and self.deadline_s is None:
            raise AgentDefinitionError(
                "on_deadline is given, but no deadline; say after how many seconds"
            )


def make_pause(
    kind: PauseKind,
    question: str,
    *,
    number: int,
    step: int,
    action: ProposedAction | None = None,
    actions: Sequence[ProposedAction] = (),
    details: Mapping[str, Any] | None = None,
    policy: PausePolicy | None = None,
    schemas: Mapping[str, dict[str, Any]] | None = None,
) -> Pause:
    """A pause record. Its id is unique within the job: the job's ``number``-th pause.

    Args:
        action: what the question is about; ``actions``, if there may be several.
        schemas: JSON schemas of fields of signals, by kind and field.
    """
    about = actions or ((action,) if action else ())
    policy = policy or PausePolicy()
    accepts = ACCEPTS[kind] if len(about) < 2 else ("decide", *ACCEPTS[kind])
    return Pause(
        id=f"p{number}",
        kind=kind,
        question=question,
        accepts=accepts,
        action=about[0] if about else None,
        actions=tuple(about) if len(about) > 1 else (),
        details=dict(details or {}),
        step=step,
        labels=tuple(policy.labels),
        timetable=timetable(policy, accepts),
        schemas=dict(schemas or {}),
    )


def _check_labels(labels: Any) -> None:
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
        raise AgentDefinitionError(f"labels={labels!r}: a tuple of texts is expected")


def _check_seconds(name: str, seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise AgentDefinitionError(f"{name}={seconds!r} must be a finite number of seconds above 0")


def _check_choice(choice: OnDeadline) -> None:
    for one in _choices(choice):
        if not isinstance(one, (Escalate, *_DECISIONS)):
            raise AgentDefinitionError(f"on_deadline={one!r}: give a signal, or Escalate(…)")


def _choices(choice: OnDeadline) -> Sequence[Choice]:
    if choice is None:
        return ()
    return choice if isinstance(choice, (list, tuple)) else (choice,)


def merged(policies: Iterable[PausePolicy | None]) -> PausePolicy:
    """One policy of several, the most special first.

    Labels add up; the deadline and the reminders are those of the first that has any.
    """
    given = [policy for policy in policies if policy is not None]
    labels = dict.fromkeys(label for policy in given for label in policy.labels)
    timed = next((policy for policy in given if policy.deadline_s is not None), PausePolicy())
    reminders = next((p.remind_after_s for p in given if p.remind_after_s), ())
    return PausePolicy(tuple(labels), timed.deadline_s, timed.on_deadline, reminders)


def timetable(policy: PausePolicy, accepts: Sequence[str]) -> tuple[Appointment, ...]:
    """What happens to a pause if nobody answers, in the order of time."""
    if policy.deadline_s is None:
        return tuple(_reminders(policy.remind_after_s, math.inf))
    stages = _stages(policy.remind_after_s, policy.deadline_s, policy.on_deadline, accepts)
    return tuple(stages)


def _reminders(after_s: Sequence[float], within_s: float) -> Iterator[Appointment]:
    for seconds in sorted(set(after_s)):
        if seconds < within_s:
            yield Appointment(after_s=seconds, do="remind")


def _stages(
    reminders: Sequence[float], within_s: float, choice: OnDeadline, accepts: Sequence[str]
) -> Iterator[Appointment]:
    """The wait for some people, what is done at its end, and the waits that follow."""
    yield from _reminders(reminders, within_s)
    step = _fitting(choice, accepts)
    if not isinstance(step, Escalate):
        yield Appointment(after_s=within_s, do="decide", signal=_of_deadline(step))
        return
    yield Appointment(after_s=within_s, do="escalate", labels=tuple(step.labels))
    then = step.then if step.times == 1 else replace(step, times=step.times - 1)
    yield from _stages(reminders, step.within_s or within_s, then, accepts)


def _fitting(choice: OnDeadline, accepts: Sequence[str]) -> Choice:
    """The first that the pause takes."""
    for one in _choices(choice):
        if isinstance(one, Escalate) or one.kind in accepts:
            return one
    return _TOO_LATE


def _of_deadline(signal: Any) -> dict[str, Any]:
    fields: dict[str, Any] = signal.model_dump(mode="json", exclude_defaults=True)
    return {**fields, "kind": signal.kind, "by": BY_DEADLINE}
