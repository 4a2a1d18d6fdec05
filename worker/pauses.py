"""The pauses a job can make: what each asks and which signals it takes."""

from __future__ import annotations

from typing import Any

from api_client.contract import Pause, PauseKind, ProposedAction

ACCEPTS: dict[PauseKind, tuple[str, ...]] = {
    PauseKind.HAND_TO_HUMAN: ("answer", "finish"),
    PauseKind.APPROVAL: ("approve", "reject", "finish"),
    PauseKind.BUDGET: ("extend", "finish"),
    PauseKind.REPEATED_ACTION: ("retry", "answer", "finish"),
    PauseKind.MODEL_ERROR: ("retry", "finish"),
    PauseKind.UNKNOWN_OUTCOME: ("happened", "did_not_happen", "finish"),
    PauseKind.VERSION_CHANGE: ("retry", "finish"),
    PauseKind.OPERATOR: ("retry", "finish"),
}


def make_pause(
    kind: PauseKind,
    question: str,
    *,
    number: int,
    step: int,
    action: ProposedAction | None = None,
    details: dict[str, Any] | None = None,
    answer_schema: dict[str, Any] | None = None,
) -> Pause:
    """A pause record. Its id is unique within the job: the job's ``number``-th pause."""
    return Pause(
        id=f"p{number}",
        kind=kind,
        question=question,
        accepts=ACCEPTS[kind],
        action=action,
        details=details or {},
        answer_schema=answer_schema,
        step=step,
    )
