"""Several models as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from worker.models import FallbackModel, Model, ModelError, ModelReply, ModelRequest, ScriptedModel
from worker.models.scripted import say

REQUEST = ModelRequest([{"role": "user", "content": "hi"}])
Ask = Callable[[FallbackModel], ModelReply]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Any:
    if request.param == "sync":
        return lambda model: model.reply(REQUEST)
    return lambda model: asyncio.run(model.areply(REQUEST))


class Failing:
    """Always fails the same way, and only knows how to block."""

    def __init__(self, *args: Any) -> None:
        self.name = "failing"
        self.calls = 0
        self._args = args

    def reply(self, request: ModelRequest) -> ModelReply:
        self.calls += 1
        raise ModelError(*self._args)


def good(name: str = "good") -> ScriptedModel:
    return ScriptedModel(["yes"], name=name)


def test_it_is_a_model_and_needs_one() -> None:
    assert isinstance(FallbackModel([good()]), Model)
    assert FallbackModel([good("first"), good()]).name == "first"
    with pytest.raises(ValueError, match="at least one"):
        FallbackModel([])


def test_the_first_that_answers_is_taken_and_named(ask: Ask) -> None:
    assert ask(FallbackModel([good("first"), good("second")])).model == "first"


@pytest.mark.parametrize("fate", ["retry", "pause"])
def test_the_next_one_is_asked(ask: Ask, fate: str) -> None:
    reply = ask(FallbackModel([Failing("x", fate), good("second")]))
    assert (reply.model, reply.message) == ("second", say("yes"))


@pytest.mark.parametrize("fate", ["compact", "fail"])
def test_what_the_request_is_to_blame_for_goes_up_at_once(ask: Ask, fate: str) -> None:
    with pytest.raises(ModelError) as caught:
        ask(FallbackModel([Failing("x", fate), good()]))
    assert caught.value.fate == fate


def test_f1_a_model_that_asked_for_a_wait_is_left_alone_until_then(ask: Ask) -> None:
    now = [100.0]
    busy = Failing("busy", "retry", 20.0)
    model = FallbackModel([busy, good()], clock=lambda: now[0])
    for _ in range(3):
        assert ask(model).model == "good"
    assert busy.calls == 1
    now[0] += 20
    ask(model)
    assert busy.calls == 2


def test_when_all_wait_the_earliest_decides_and_nobody_is_called(ask: Ask) -> None:
    now = [100.0]
    models = [Failing("busy", "retry", 20.0), Failing("full", "retry", 8.0)]
    model = FallbackModel(models, clock=lambda: now[0])
    for waited in (0.0, 3.0):
        now[0] = 100.0 + waited
        with pytest.raises(ModelError) as caught:
            ask(model)
        assert (caught.value.fate, caught.value.retry_after) == ("retry", 8.0 - waited)
    assert [m.calls for m in models] == [1, 1]


def test_when_all_fail_the_words_of_each_are_told(ask: Ask) -> None:
    model = FallbackModel([Failing("no key", "pause", None, 401), Failing("spent", "pause")])
    with pytest.raises(ModelError, match="no model answered: no key; spent") as caught:
        ask(model)
    assert (caught.value.fate, caught.value.status) == ("pause", 401)


def test_one_that_may_come_back_is_waited_for(ask: Ask) -> None:
    with pytest.raises(ModelError) as caught:
        ask(FallbackModel([Failing("no key", "pause"), Failing("down", "retry", None, 503)]))
    assert (caught.value.fate, caught.value.status, caught.value.retry_after) == (
        "retry",
        503,
        None,
    )
