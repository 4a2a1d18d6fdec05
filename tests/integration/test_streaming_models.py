"""Replies in pieces over real sockets: three formats, broken streams, calls that are closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from worker.devserver import Fault, ModelServer, Strict
from worker.models import (
    AnthropicModel,
    FallbackModel,
    FunctionModel,
    ModelError,
    ModelReply,
    ModelRequest,
    OpenAIModel,
    OpenAIResponsesModel,
    ScriptedModel,
    Usage,
)
from worker.models.base import Delta, StreamingModel, StreamStopped
from worker.models.http import HttpModel
from worker.models.scripted import act, say

KEY = "sk-test-4711"
REQUEST = ModelRequest([{"role": "user", "content": "hi"}])
LINE = act("First I look it up.", ("find", {"order": "1187"}), ("find", {"order": "1042"}))
TEXT = "".join(f"word{n} " for n in range(30))


Make = Callable[..., HttpModel]
FORMATS = {"chat": OpenAIModel, "responses": OpenAIResponsesModel, "anthropic": AnthropicModel}


@pytest.fixture
def made() -> Iterator[Callable[..., HttpModel]]:
    """Makes models of a format, and closes them."""
    models: list[HttpModel] = []

    def make(form: str, server: ModelServer, **settings: Any) -> HttpModel:
        url = server.root_url if form == "anthropic" else server.base_url
        models.append(FORMATS[form]("m", base_url=url, api_key=KEY, **settings))
        return models[-1]

    yield make
    for model in models:
        model.close()


@pytest.fixture(params=FORMATS)
def make(request: pytest.FixtureRequest, made: Callable[..., HttpModel]) -> Make:
    return partial(made, request.param)


@pytest.fixture
def chat(made: Callable[..., HttpModel]) -> Make:
    return partial(made, "chat")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(ScriptedModel([LINE], Usage(81, 13, 20)), strict=Strict()) as running:
        yield running


@pytest.fixture
def talker() -> Iterator[ModelServer]:
    with ModelServer(ScriptedModel([TEXT], Usage(5, 60))) as running:
        yield running


def streamed(model: HttpModel) -> tuple[ModelReply, list[Delta]]:
    deltas: list[Delta] = []
    return model.stream(REQUEST, deltas.append), deltas


def error_of(model: HttpModel) -> ModelError:
    with pytest.raises(ModelError) as caught:
        streamed(model)
    assert KEY not in str(caught.value.args)
    return caught.value


def test_the_reply_is_the_one_that_comes_in_one_piece(server: ModelServer, make: Make) -> None:
    model = make(server)
    assert isinstance(model, StreamingModel)
    reply, deltas = streamed(model)
    assert reply == model.reply(REQUEST)
    assert reply.usage == Usage(81, 13, 20)
    assert "".join(d.text for d in deltas if d.kind == "text") == "First I look it up."
    calls = [d for d in deltas if d.kind == "call"]
    assert [(d.index, d.name) for d in calls if d.name] == [(0, "find"), (1, "find")]
    assert "".join(d.text for d in calls if d.index == 1) == '{"order": "1042"}'
    assert server.bodies[0].pop("stream") is True
    server.bodies[0].pop("stream_options", None)
    assert server.bodies[0] == server.bodies[1]


def test_streams_one_after_another_keep_one_connection(server: ModelServer, make: Make) -> None:
    model = make(server)
    for _ in range(4):
        streamed(model)
    assert server.connections == 1


def test_a_server_may_refuse_to_be_asked_for_the_count(server: ModelServer, chat: Make) -> None:
    streamed(chat(server))
    reply, _ = streamed(chat(server, stream_usage=False))
    assert server.bodies[0]["stream_options"] == {"include_usage": True}
    assert "stream_options" not in server.bodies[1]
    assert reply.usage is None


@pytest.mark.parametrize("events", [0, 1, 4])
def test_a_stream_that_ends_without_a_reason_is_tried_again_and_is_no_answer(
    talker: ModelServer, make: Make, events: int
) -> None:
    talker.faults.append(Fault.cut_stream(events))
    error = error_of(make(talker))
    assert (error.fate, error.code) == ("retry", "stream_cut")


@pytest.mark.parametrize("fault", [Fault.truncated(), Fault.reset()], ids=["truncated", "reset"])
def test_a_stream_that_breaks_is_tried_again_and_is_no_answer(
    talker: ModelServer, make: Make, fault: Fault
) -> None:
    talker.faults.append(fault)
    model = make(talker)
    error = error_of(model)
    assert (error.fate, error.code) == ("retry", "connection")
    assert streamed(model)[0].message["content"] == TEXT


def test_a_stream_that_falls_silent_or_never_ends_runs_into_the_time(
    talker: ModelServer, make: Make
) -> None:
    talker.faults += [Fault.drip(0.2, after=-1), Fault.held_stream(3)]
    model = make(talker, total_timeout=0.6)
    for _ in range(2):
        error = error_of(model)
        assert (error.fate, error.code) == ("retry", "timeout")
    talker.wait_for_connections(0)


@pytest.mark.parametrize("status", [429, 400, 503])
def test_an_error_instead_of_a_stream_is_judged_like_any_other(
    talker: ModelServer, make: Make, status: int
) -> None:
    fault = Fault.status(status, f"no, {KEY}", headers={"retry-after": "7"})
    talker.faults += [fault, fault]
    model = make(talker)
    error = error_of(model)
    with pytest.raises(ModelError) as caught:
        model.reply(REQUEST)
    assert error.args == caught.value.args


@pytest.mark.parametrize(
    "event",
    [
        'data: {"error": {"message": "overloaded", "type": "overloaded_error"}}',
        'event: error\ndata: {"error": {"type": "overloaded_error", "message": "overloaded"}}',
        'event: error\ndata: {"type": "error", "code": "server_error", "message": "overloaded"}',
    ],
)
def test_an_error_in_the_middle_of_a_stream_is_judged(
    talker: ModelServer, make: Make, event: str
) -> None:
    headers = {"content-type": "text/event-stream"}
    talker.faults.append(Fault.status(200, headers=headers, body=f": hello\n\n{event}\n\n"))
    error = error_of(make(talker))
    assert (error.fate, error.text) == ("retry", "overloaded")


def test_a_server_that_does_not_stream_answers_all_the_same(make: Make) -> None:
    def unwilling(server: ModelServer) -> None:
        server.faults.append(Fault.body(bodies[0]))

    bodies: list[Any] = []
    with ModelServer(ScriptedModel(["Hello."])) as server:
        server.faults.append(Fault.edited(lambda body: bodies.append(body)))
        make(server).reply(REQUEST)
        unwilling(server)
        reply, deltas = streamed(make(server))
    assert (reply.message, deltas) == (say("Hello."), [Delta("text", "Hello.")])


def test_a_call_that_nobody_wants_any_more_is_closed_at_once(
    talker: ModelServer, make: Make
) -> None:
    """Between two pieces as well: the server's comments are enough to notice."""
    talker.faults.append(Fault.held_stream(6))
    seen: list[Delta] = []

    def take(delta: Delta) -> None:
        seen.append(delta)
        if seen.count(Delta("text")) == 3:
            raise StreamStopped("cancel")

    model = make(talker)
    with pytest.raises(StreamStopped) as caught:
        model.stream(REQUEST, take)
    assert caught.value.why == "cancel"
    talker.wait_for_connections(0)
    assert any(d.text for d in seen)
    assert model.reply(REQUEST).message["content"] == TEXT


def test_the_next_model_of_a_list_begins_anew(talker: ModelServer, chat: Make) -> None:
    talker.faults.append(Fault.cut_stream(3))
    model = FallbackModel([chat(talker), FunctionModel(lambda _: "From the other one.")])
    deltas: list[Delta] = []
    reply = model.stream(REQUEST, deltas.append)
    assert reply.message["content"] == "From the other one."
    assert deltas[-2:] == [Delta("begin"), Delta("text", "From the other one.")]
    assert deltas[0].text
