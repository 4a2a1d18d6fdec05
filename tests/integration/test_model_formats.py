"""The same talk through the three wire formats: the message list stays the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from worker.devserver import Fault, ModelServer, Strict
from worker.models import (
    AnthropicModel,
    Message,
    ModelError,
    ModelReply,
    ModelRequest,
    OpenAIModel,
    OpenAIResponsesModel,
    ScriptedModel,
    Usage,
)
from worker.models.http import HttpModel
from worker.models.scripted import act, say
from worker.replies import read_reply

KEY = "sk-test-4711"
SYSTEM: Message = {"role": "system", "content": "Du bist der Support-Agent."}
TASK: Message = {"role": "user", "content": "Die Kopfhörer aus Bestellung 1187 sind kaputt."}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Nach der Nummer.",
            "parameters": {
                "type": "object",
                "properties": {"order_id": {"type": "string"}},
                "required": ["order_id"],
            },
        },
    }
    for name in ("get_order_status", "open_return_request")
]
SCRIPT = [
    act("Zuerst prüfe ich.", ("get_order_status", {"order_id": "1187"})),
    act(
        None,
        ("open_return_request", {"order_id": "1187"}),
        ("get_order_status", {"order_id": "1042"}),
    ),
    "Ich habe die Anfrage R-1 geöffnet.",
]


def chat(server: ModelServer, **settings: Any) -> HttpModel:
    return OpenAIModel("m", base_url=server.base_url, api_key=KEY, **settings)


def responses(server: ModelServer, **settings: Any) -> HttpModel:
    return OpenAIResponsesModel("m", base_url=server.base_url, api_key=KEY, **settings)


def anthropic(server: ModelServer, **settings: Any) -> HttpModel:
    return AnthropicModel("m", base_url=server.root_url, api_key=KEY, **settings)


Make = Callable[..., HttpModel]
FORMATS = [chat, responses, anthropic]


@pytest.fixture(params=FORMATS, ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Any:
    def blocking(model: HttpModel, asked: ModelRequest) -> ModelReply:
        try:
            return model.reply(asked)
        finally:
            model.close()

    async def once(model: HttpModel, asked: ModelRequest) -> ModelReply:
        try:
            return await model.areply(asked)
        finally:
            await model.aclose()

    def in_a_loop(model: HttpModel, asked: ModelRequest) -> ModelReply:
        return asyncio.run(once(model, asked))

    return blocking if request.param == "sync" else in_a_loop


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(ScriptedModel(SCRIPT, Usage(81, 13, 20)), strict=Strict()) as running:
        yield running


def talk(ask: Callable[..., ModelReply], model: HttpModel) -> tuple[list[Message], list[Any]]:
    """Play a job to its end: the message list, and what was told beside each reply."""
    messages, told = [SYSTEM, TASK], []
    while True:
        reply = ask(model, ModelRequest(messages, TOOLS))
        turn = read_reply(
            reply.message,
            history=messages,
            tool_names=["get_order_status", "open_return_request"],
            finish_reason=reply.finish_reason,
        )
        messages = [*messages, turn.message]
        told.append((reply.usage, reply.finish_reason, reply.model, turn.raw))
        if not turn.calls:
            return messages, told
        for call in turn.calls:
            answer = f"{call.name}({call.arguments})"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})


def test_the_same_talk_gives_the_same_messages(ask: Any, make: Make, server: ModelServer) -> None:
    messages, told = talk(ask, make(server))
    assert messages == [
        SYSTEM,
        TASK,
        act("Zuerst prüfe ich.", ("get_order_status", {"order_id": "1187"}, "call_1")),
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": 'get_order_status({"order_id": "1187"})',
        },
        act(
            None,
            ("open_return_request", {"order_id": "1187"}, "call_2_1"),
            ("get_order_status", {"order_id": "1042"}, "call_2_2"),
        ),
        {
            "role": "tool",
            "tool_call_id": "call_2_1",
            "content": 'open_return_request({"order_id": "1187"})',
        },
        {
            "role": "tool",
            "tool_call_id": "call_2_2",
            "content": 'get_order_status({"order_id": "1042"})',
        },
        say("Ich habe die Anfrage R-1 geöffnet."),
    ]
    usage = Usage(81, 13, 20)
    assert told == [
        (usage, "tool_calls", "m", {}),
        (usage, "tool_calls", "m", {}),
        (usage, "stop", "m", {}),
    ]


def test_the_lessons_wire_shape(server: ModelServer) -> None:
    model = anthropic(server, max_tokens=1024)
    model.reply(ModelRequest([SYSTEM, TASK], TOOLS))
    model.close()
    sent = server.requests[0]
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["anthropic-version"]
    assert sent.body == {
        "model": "m",
        "max_tokens": 1024,
        "system": SYSTEM["content"],
        "tools": [
            {
                "name": name,
                "description": "Nach der Nummer.",
                "input_schema": TOOLS[0]["function"]["parameters"],  # type: ignore[index]
            }
            for name in ("get_order_status", "open_return_request")
        ],
        "messages": [{"role": "user", "content": [{"type": "text", "text": TASK["content"]}]}],
    }


def test_reasoning_goes_back_in_its_place(ask: Any, server: ModelServer) -> None:
    hidden = {"reasoning": "cipher", "thinking": "hm"}
    lines = [act("Look.", ("get_order_status", {"order_id": "1"}), **hidden), "Done."]
    for make, field in ((responses, "response_items"), (anthropic, "content_blocks")):
        with ModelServer(lines, strict=Strict()) as thinking:
            messages, _ = talk(ask, make(thinking))
            assert field in messages[2]
            body = thinking.bodies[1]
        sent = body["input"] if make is responses else body["messages"][1]["content"]
        kinds = [item["type"] for item in sent]
        assert kinds in (
            ["message", "reasoning", "message", "function_call", "function_call_output"],
            ["thinking", "text", "tool_use"],
        )
        # What one format keeps for itself is not sent in another.
        asked = ModelRequest([*messages[:4], {"role": "user", "content": "And?"}])
        assert ask(chat(server), asked).message["role"] == "assistant"
        assert field not in server.bodies[-1]["messages"][2]


def test_reasoning_is_asked_for_only_on_request(server: ModelServer) -> None:
    for keep, wanted in ((True, ["reasoning.encrypted_content"]), (False, None)):
        model = responses(server, keep_reasoning=keep)
        model.reply(ModelRequest([TASK]))
        model.close()
        assert server.bodies[-1].get("include") == wanted
        assert server.bodies[-1]["store"] is False


def test_a4_a_call_cut_by_the_length_limit_is_seen_in_each_format(ask: Any, make: Make) -> None:
    cut = ModelReply(act("x", ("f", "{}", "c1")), finish_reason="length")
    edits = {
        chat: lambda body: body["choices"][0]["message"]["tool_calls"][0]["function"].update(
            arguments='{"a": "lo'
        ),
        responses: lambda body: body["output"][1].update(arguments='{"a": "lo'),
        anthropic: lambda body: body["content"][1].update(input={"a": "lo"}),
    }
    with ModelServer([cut], faults=[Fault.edited(edits[make])]) as server:
        reply = ask(make(server), ModelRequest([TASK], TOOLS))
    assert reply.finish_reason == "length"
    turn = read_reply(
        reply.message, history=[TASK], tool_names=["f"], finish_reason=reply.finish_reason
    )
    assert [c.problem for c in turn.calls] == ["truncated"]


def test_a12_a_refusal_is_a_refusal_in_each_format(ask: Any, make: Make) -> None:
    line = {"content": None, "refusal": "I can't help with that"}
    with ModelServer([line]) as server:
        reply = ask(make(server), ModelRequest([TASK]))
    turn = read_reply(
        reply.message, history=[TASK], tool_names=[], finish_reason=reply.finish_reason
    )
    assert turn.refusal == "I can't help with that"
    assert turn.text == ""


@pytest.mark.parametrize(
    ("body", "fate"),
    [
        ({"id": None, "choices": None, "content": None, "output": None}, "retry"),
        ({"choices": [], "content": [], "output": []}, "retry"),
        ({"error": {"code": 429, "message": "busy"}}, "retry"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "retry"),
        ({"error": {"code": 400, "message": "bad"}}, "pause"),
        ("[]", "retry"),
        ("<html>", "retry"),
    ],
)
def test_a10_a11_what_is_no_answer_is_judged_in_each_format(
    ask: Any, make: Make, body: Any, fate: str
) -> None:
    with (
        ModelServer(["x"], faults=[Fault.body(body)]) as server,
        pytest.raises(ModelError) as caught,
    ):
        ask(make(server), ModelRequest([TASK]))
    assert caught.value.fate == fate


@pytest.mark.parametrize("usage", [None, {"input_tokens": 10, "output_tokens": None}, "x"])
def test_a17_an_incomplete_count_is_no_count_in_each_format(
    ask: Any, make: Make, usage: Any
) -> None:
    fault = Fault.edited(lambda body: body.update(usage=usage))
    with ModelServer(["x"], faults=[fault]) as server:
        assert ask(make(server), ModelRequest([TASK])).usage is None


@pytest.mark.parametrize(
    ("status", "code", "fate"),
    [
        (429, None, "retry"),
        (529, None, "retry"),
        (401, None, "pause"),
        (429, "insufficient_quota", "pause"),
        (400, "context_length_exceeded", "compact"),
        (413, None, "compact"),
    ],
)
def test_errors_have_one_fate_in_each_format(
    ask: Any, make: Make, status: int, code: str | None, fate: str
) -> None:
    fault = Fault.status(status, f"no {KEY}", code=code, headers={"retry-after": "7"})
    with ModelServer(["x"], faults=[fault]) as server:
        with pytest.raises(ModelError) as caught:
            ask(make(server), ModelRequest([TASK]))
        assert server.count == 1
    error = caught.value
    assert (error.fate, error.status, error.text) == (fate, status, "no [secret]")
    assert error.retry_after == (7.0 if fate == "retry" else None)


def test_f5_each_format_has_an_end(ask: Any, make: Make, server: ModelServer) -> None:
    server.always = Fault.drip(0.05)
    with pytest.raises(ModelError) as caught:
        ask(make(server, total_timeout=0.3), ModelRequest([TASK]))
    assert (caught.value.fate, caught.value.code) == ("retry", "timeout")


@pytest.mark.parametrize("choice", ["auto", "required", "none", "named"])
@pytest.mark.parametrize("parallel", [None, False])
def test_choices_about_tools_arrive_in_each_format(
    make: Make, choice: str, parallel: bool | None
) -> None:
    wanted: Any = choice
    if choice == "named":
        wanted = {"type": "function", "function": {"name": "get_order_status"}}
    seen: list[ModelRequest] = []

    class Listening:
        name = "listening"

        def reply(self, request: ModelRequest) -> ModelReply:
            seen.append(request)
            return ModelReply(say("ok"))

    with ModelServer(Listening()) as server:
        model = make(server, tool_choice=wanted, parallel_tool_calls=parallel)
        model.reply(ModelRequest([TASK], TOOLS))
        model.close()
    assert seen[0].tool_choice == wanted
    # Without any call there is nothing to forbid.
    expected = None if make is anthropic and choice == "none" else parallel
    assert seen[0].parallel_tool_calls == expected
    assert [t["function"]["name"] for t in seen[0].tools] == [
        "get_order_status",
        "open_return_request",
    ]


def test_a_history_with_everything_odd_is_taken_in_each_format(make: Make) -> None:
    calls = act("", ("f", "{}", "functions.f:0"), ("f", '{"a": 1}', "c2"))
    history: list[Message] = [
        {"role": "system", "content": "A."},
        {"role": "developer", "content": [{"type": "text", "text": "B."}]},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": None, "refusal": "no"},
        {"role": "user", "content": "please"},
        {"role": "assistant", "content": "", "reasoning_content": "r"},
        {"role": "user", "content": "now"},
        calls,
        {"role": "tool", "tool_call_id": "functions.f:0", "content": ""},
        {"role": "tool", "tool_call_id": "c2", "content": "x"},
        {"role": "user", "content": "note"},
        say("half"),
        {"role": "user", "content": ""},
    ]
    if make is chat:  # There, a second system message is for the caller to avoid.
        del history[1]
    with ModelServer(lambda _: "ok", strict=Strict()) as server:
        model = make(server)
        assert model.reply(ModelRequest(history)).message == say("ok")
        model.close()
