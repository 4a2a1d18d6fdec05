"""The hidden context: readable in a call, and only there."""

from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from worker.context import ActionContext, current_call
from worker.context import CallInfo as Info


def test_outside_a_call_there_is_no_call() -> None:
    for name in ("job_id", "call_id", "step", "attempt", "idempotency_key"):
        with pytest.raises(RuntimeError, match="while a tool runs"):
            getattr(ActionContext(), name)


def test_in_a_call_it_is_readable() -> None:
    token = current_call.set(Info("j", "c", 2, 3, "k"))
    try:
        ctx = ActionContext()
        found = (ctx.job_id, ctx.call_id, ctx.step, ctx.attempt, ctx.idempotency_key)
    finally:
        current_call.reset(token)
    assert found == ("j", "c", 2, 3, "k")


def test_names_that_the_service_fills_in_are_refused() -> None:
    with pytest.raises(TypeError, match="job_id"):

        class Annotated(ActionContext):
            job_id: str

    with pytest.raises(TypeError, match="step"):

        class Assigned(ActionContext):
            def step(self) -> int:  # type: ignore[override]
                return 1


def test_a_single_name_in_place_of_a_collection_is_refused() -> None:
    with pytest.raises(TypeError, match=r"\('tenant',\)"):

        class Wrong(ActionContext):
            visible = "tenant"


def test_plain_classes_dataclasses_slots_and_models_can_be_contexts() -> None:
    class Plain(ActionContext):
        def __init__(self) -> None:
            self.x = 1

    @dataclass(slots=True, frozen=True)
    class Slotted(ActionContext):
        x: int

    class Model(BaseModel, ActionContext):
        x: int

    @dataclass
    class Both(Plain):
        y: int = 2

    for ctx in (Plain(), Slotted(1), Model(x=1), Both()):
        assert isinstance(ctx, ActionContext)
    assert Slotted(1).x == Model(x=1).x == 1
