"""A function as a model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from worker import Agent, run_inline, tool
from worker.models import FunctionModel, Model, ModelError, ModelReply, ModelRequest, Usage
from worker.models.scripted import act

REQUEST = ModelRequest([{"role": "user", "content": "hi"}], [{"type": "function"}])
Ask = Callable[[FunctionModel], ModelReply]


def in_thread(model: FunctionModel) -> ModelReply:
    return model.reply(REQUEST)


def in_loop(model: FunctionModel) -> ModelReply:
    return asyncio.run(model.areply(REQUEST))


def beside_a_loop(model: FunctionModel) -> ModelReply:
    """The blocking way, called from inside a running event loop."""

    async def call() -> ModelReply:
        return model.reply(REQUEST)

    return asyncio.run(call())


@pytest.fixture(params=[in_thread, in_loop, beside_a_loop])
def ask(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_it_is_a_model() -> None:
    assert isinstance(FunctionModel(lambda _: "x"), Model)


def test_text_a_message_or_a_reply(ask: Ask) -> None:
    text = ask(FunctionModel(lambda messages: messages[-1]["content"] + "!"))
    assert (text.message, text.finish_reason, text.model) == (
        {"role": "assistant", "content": "hi!"},
        "stop",
        "function",
    )
    message = ask(FunctionModel(lambda _: {"tool_calls": [{"id": "c"}]}))
    assert message.message == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c"}],
    }
    assert message.finish_reason == "tool_calls"
    reply = ModelReply({"role": "assistant", "content": "x"}, Usage(1, 1))
    assert ask(FunctionModel(lambda _: reply)) is reply


def test_the_tools_are_given_to_a_function_that_takes_them(ask: Ask) -> None:
    assert ask(FunctionModel(lambda _, tools: str(len(tools)))).message["content"] == "1"
    assert ask(FunctionModel(lambda *given: str(len(given)))).message["content"] == "2"
    assert ask(FunctionModel(lambda _, *, x=1: str(x))).message["content"] == "1"


def test_a_coroutine_function_works_too(ask: Ask) -> None:
    async def answer(messages: Any, tools: Any) -> str:
        await asyncio.sleep(0)
        return f"{len(messages)} {len(tools)}"

    assert ask(FunctionModel(answer)).message["content"] == "1 1"


def test_errors_are_model_errors(ask: Ask) -> None:
    def broken(messages: Any) -> str:
        raise KeyError("x")

    async def broken_later(messages: Any) -> str:
        raise KeyError("x")

    for function in (broken, broken_later):
        with pytest.raises(ModelError, match="'function' raised KeyError: 'x'") as caught:
            ask(FunctionModel(function))
        assert caught.value.fate == "fail"


def test_its_own_model_errors_are_left_alone(ask: Ask) -> None:
    mine = ModelError("busy", "retry", 3.0)

    def busy(messages: Any) -> str:
        raise mine

    async def busy_later(messages: Any) -> str:
        raise mine

    for function in (busy, busy_later):
        with pytest.raises(ModelError) as caught:
            ask(FunctionModel(function))
        assert caught.value is mine


def test_any_other_answer_is_refused(ask: Ask) -> None:
    with pytest.raises(ModelError, match="not list"):
        ask(FunctionModel(lambda _: cast("Any", [])))


def test_a_blocking_function_does_not_hold_the_event_loop() -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(messages: Any) -> str:
        started.set()
        assert go_on.wait(10)
        return "done"

    async def both() -> ModelReply:
        reply = asyncio.create_task(FunctionModel(slow).areply(REQUEST))
        await asyncio.to_thread(started.wait, 10)
        go_on.set()
        return await reply

    assert asyncio.run(both()).message["content"] == "done"


def test_calls_without_ids_are_given_some_that_were_not_there_before() -> None:
    """So that no trace says of a function what is said of a model whose ids had to be repaired."""
    seen: list[Any] = []

    @tool
    def look(x: int) -> str:
        """Look."""
        return str(x)

    def play(messages: list[dict[str, Any]]) -> Any:
        seen[:] = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
        lines = [
            act("One.", ("look", {"x": 1})),
            act("Two.", ("look", {"x": 2}), ("look", {"x": 3}, "mine"), ("look", {"x": 4})),
            act("Three.", ("look", {"x": 5}, "own")),
            act("Four.", ("look", {"x": 6})),
        ]
        return [*lines, "done"][sum(message["role"] == "assistant" for message in messages)]

    run = run_inline(Agent(name="a", goal="g", tools=[look], model=FunctionModel(play)), "t")
    assert run.answer == "done"
    assert seen == ["call_1", "call_2_1", "mine", "call_2_3", "own", "call_3"]
    assert [event.data["raw"] for event in run.events if "raw" in event.data] == []


@pytest.mark.parametrize("calls", [5, "x", [1], [None, {"type": "function"}]])
def test_calls_that_are_none_are_left_as_they_are(ask: Ask, calls: Any) -> None:
    reply = ask(FunctionModel(lambda _messages: {"content": None, "tool_calls": calls}))
    assert reply.message["tool_calls"] == calls
