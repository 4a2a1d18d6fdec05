"""Pauses: the wait records of jobs that need a person."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, JsonValue, computed_field

from api_client.answers import answer_schemas
from api_client.shapes import Contract


class PauseKind(StrEnum):
    """Why a job waits for a person."""

    HAND_TO_HUMAN = "hand_to_human"
    APPROVAL = "approval"
    BUDGET = "budget"
    REPEATED_ACTION = "repeated_action"
    MODEL_ERROR = "model_error"
    UNKNOWN_OUTCOME = "unknown_outcome"
    VERSION_CHANGE = "version_change"
    OPERATOR = "operator"


class ProposedAction(Contract):
    """A tool call that a pause is about."""

    call_id: str
    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class Appointment(Contract):
    """What happens to a pause at a given time, if nobody has answered by then.

    Attributes:
        after_s: seconds since the people who may answer now were asked: since the pause was made,
            or since it was last escalated.
        do: ``remind`` them, ``escalate`` to the people of ``labels``, or ``decide``, by ``signal``.
    """

    after_s: float = Field(gt=0)
    do: Literal["remind", "escalate", "decide"]
    labels: tuple[str, ...] = ()
    signal: dict[str, JsonValue] | None = None


class Pause(Contract):
    """A wait record: what a person is asked, who may answer, and which signals it takes.

    Attributes:
        action: what is to be approved, or what the question is about; the first of ``actions``.
        actions: all of them, if there are several.
        labels: people with one of these labels may answer; anybody, if there are none.
        timetable: what happens if nobody answers, in the order of time.
        kept: how many entries of the timetable have been kept.
        created: when the pause was made.
        asked: when it was escalated last, 0 if it has not been.
        deadline: when the timetable escalates or decides next.
        schemas: JSON schemas of single fields of signals, by kind of signal and field.
    """

    id: str
    kind: PauseKind
    question: str
    accepts: tuple[str, ...]
    action: ProposedAction | None = None
    actions: tuple[ProposedAction, ...] = ()
    details: dict[str, JsonValue] = Field(default_factory=dict)
    step: int = 0
    labels: tuple[str, ...] = ()
    timetable: tuple[Appointment, ...] = ()
    kept: int = 0
    created: int = 0
    asked: int = 0
    deadline: int | None = None
    schemas: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def answer_schema(self) -> dict[str, Any]:
        """The JSON schema of each kind of signal that the pause takes, by kind."""
        return answer_schemas(self.accepts, self.schemas)

    def stored(self) -> str:
        """The record as JSON, without what can be computed."""
        return self.model_dump_json(exclude_defaults=True, exclude={"answer_schema"})

    def standing(
        self, created: int, kept: int = 0, asked: int = 0, labels: Sequence[str] | None = None
    ) -> Pause:
        """The pause as it stands now.

        Args:
            created, asked: milliseconds since the epoch.
            labels: of the last escalation, if there was one.
        """
        deadline = next((e.after_s for e in self.timetable[kept:] if e.do != "remind"), None)
        changes: dict[str, Any] = {"created": created, "kept": kept, "asked": asked}
        if deadline is not None:
            changes["deadline"] = (asked or created) + to_ms(deadline)
        if labels is not None:
            changes["labels"] = tuple(labels)
        return self.model_copy(update=changes)


def to_ms(seconds: float) -> int:
    """Whole milliseconds, as the scripts count them."""
    return int(seconds * 1000)
