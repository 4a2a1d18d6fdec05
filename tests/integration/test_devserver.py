"""The model server: its wire, its strictness, its faults, its process."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from worker.devserver import Fault, ModelServer, Strict
from worker.devserver.__main__ import load
from worker.models import FunctionModel, ModelError, ModelReply, ModelRequest, ScriptedModel
from worker.models.base import Usage
from worker.models.scripted import act, say

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASSISTANT: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [CALL]}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "x"}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    script = [act("Über.", ("f", {"city": "Malmö"}), ("g", {}), thought="t"), "Done."]
    with ModelServer(ScriptedModel(script, Usage(3, 4)), strict=Strict()) as running:
        yield running


@pytest.fixture
def client(server: ModelServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=0) as made:
        yield made


def post(server: ModelServer, body: Any, path: str = "/v1/chat/completions") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    raw = body if isinstance(body, bytes) else json.dumps(body)
    connection.request("POST", path, raw, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text)


def complain(strict: Strict, messages: list[Any], **body: Any) -> str:
    """What the server has against a request; fails if it has nothing."""
    with ModelServer(lambda _: "fine", strict=strict) as server:
        status, answer = post(server, {"model": "m", "messages": messages, **body})
    assert status in (400, 500)
    return str(answer["error"]["message"])


def test_the_sdks_typed_methods_understand_it(client: openai.OpenAI) -> None:
    done = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    calls = done.choices[0].message.tool_calls
    assert calls is not None
    assert [c.id for c in calls] == ["call_1_1", "call_1_2"]
    assert done.choices[0].finish_reason == "tool_calls"
    assert done.usage is not None
    assert done.usage.total_tokens == 7
    assert [m.id for m in client.models.list()] == ["scripted"]


def test_a_stream_adds_up_to_the_reply(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="m",
        messages=[{"role": "user", "content": "x"}],
        stream_options={"include_usage": True},
    ) as stream:
        final = stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "Über."
    assert message.tool_calls is not None
    assert [c.function.arguments for c in message.tool_calls] == ['{"city": "Malmö"}', "{}"]
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.usage is not None
    assert final.usage.prompt_tokens == 3


def test_a_cut_stream_has_no_finish_reason(server: ModelServer, client: openai.OpenAI) -> None:
    server.faults.append(Fault.cut_stream(3))
    stream = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "x"}], stream=True
    )
    reasons = [chunk.choices[0].finish_reason for chunk in stream]
    assert reasons == [None, None, None]


def test_faults_come_in_their_order_and_none_answers(server: ModelServer) -> None:
    server.faults.extend([Fault.status(503), None, Fault.body({"a": 1}), Fault.delay(0)])
    asked = {"model": "m", "messages": [USER]}
    assert [post(server, asked)[0] for _ in range(5)] == [503, 200, 200, 200, 200]
    server.always = Fault.status(529, "full", code=529, headers={"x": "y"})
    assert post(server, asked) == (
        529,
        {"error": {"message": "full", "type": "error", "param": None, "code": 529}},
    )
    assert server.count == 6


def test_an_answer_can_be_edited(server: ModelServer) -> None:
    server.faults.append(Fault.edited(lambda body: {"only": body["model"]}))
    assert post(server, {"model": "m", "messages": [USER]}) == (200, {"only": "m"})


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ModelError("x", "retry"), 503),
        (ModelError("x", "retry", status=429), 429),
        (ModelError("x", "compact"), 400),
        (ModelError("x", "fail"), 400),
    ],
)
def test_a_scripts_error_becomes_an_answer(error: ModelError, status: int) -> None:
    with ModelServer([error, "x"]) as server:
        assert post(server, {"model": "m", "messages": [USER]})[0] == status


def test_a_model_without_an_async_way_does_not_hold_the_others() -> None:
    both = threading.Barrier(2, timeout=10)

    class Meeting:
        name = "meeting"

        def reply(self, request: ModelRequest) -> ModelReply:
            both.wait()
            return ModelReply(say("met"))

    with ModelServer(Meeting()) as server:
        threads = [
            threading.Thread(target=post, args=(server, {"model": "m", "messages": [USER]}))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in threads)


def test_stopping_ends_hanging_calls() -> None:
    with ModelServer(["x"], faults=[Fault.hang()]) as server:
        failed = threading.Event()

        def ask() -> None:
            try:
                post(server, {"model": "m", "messages": [USER]})
            except (OSError, http.client.HTTPException):
                failed.set()

        thread = threading.Thread(target=ask)
        thread.start()
        server.wait_for(1)
    thread.join(10)
    assert failed.is_set()


def test_waiting_for_what_does_not_come_ends(server: ModelServer) -> None:
    with pytest.raises(TimeoutError, match="0 of 1 requests"):
        server.wait_for(1, timeout=0.01)
    with pytest.raises(TimeoutError, match="0 connections"):
        server.wait_for_connections(1, timeout=0.01)


def test_a_taken_port_is_an_error(server: ModelServer) -> None:
    with pytest.raises(OSError, match="in use"):
        ModelServer(["x"], port=server.port).start()


@pytest.mark.parametrize("body", [b"{", b"\xff"])
def test_what_is_no_json_is_refused(server: ModelServer, body: bytes) -> None:
    assert post(server, body)[0] == 400


def test_what_is_no_http_is_refused(server: ModelServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(b"nonsense\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400")


def test_an_unknown_address_is_not_found(server: ModelServer) -> None:
    assert post(server, {}, "/v1/what")[0] == 404


def test_a_chunked_request_is_read(server: ModelServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    parts = iter([b'{"model": "m", "mess', b'ages": [{"role": "user", "content": "x"}]}'])
    connection.request("POST", "/v1/chat/completions", parts, encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "at least one"),
        ([{"role": "nobody", "content": "x"}], "unknown role"),
        ([USER, {"role": "system", "content": "x"}], "must be the first"),
        ([USER, {"role": "developer", "content": "x"}], "must be the first"),
        ([{"role": "user", "content": None}], "content must be"),
        ([USER, ASSISTANT], "not answered: ['c1']"),
        ([USER, ASSISTANT, USER], "not answered: ['c1']"),
        ([USER, ANSWER], "no open tool call"),
        ([USER, ASSISTANT, ANSWER, ANSWER], "no open tool call"),
        ([USER, ASSISTANT, ANSWER, ASSISTANT, ANSWER], "must be unique"),
        ([USER, {"role": "assistant", "content": None}], "needs content or tool_calls"),
        ([USER, {"role": "assistant", "content": "", "tool_calls": []}], "must not be empty"),
        ([USER, {**ASSISTANT, "tool_calls": [{**CALL, "id": ""}]}], "needs an id"),
        ([USER, {**ASSISTANT, "tool_calls": [{**CALL, "type": "custom"}]}], "of type function"),
    ],
)
def test_b_a_history_that_is_not_valid_is_refused(messages: list[Any], words: str) -> None:
    assert words in complain(Strict(), messages)


def test_b_a_valid_history_is_taken() -> None:
    two = {**ASSISTANT, "tool_calls": [CALL, {**CALL, "id": "c2"}]}
    answers = [{**ANSWER, "tool_call_id": "c2"}, ANSWER]
    messages = [{"role": "system", "content": "s"}, USER, two, *answers, say("x"), USER]
    with ModelServer(lambda _: "fine", strict=Strict()) as server:
        assert post(server, {"model": "m", "messages": messages})[0] == 200


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ({"name": "a.b", "arguments": "{}"}, "does not match"),
        ({"name": "", "arguments": "{}"}, "does not match"),
        ({"name": "f", "arguments": ""}, "not a JSON object"),
        ({"name": "f", "arguments": "[1]"}, "not a JSON object"),
        ({"name": "f", "arguments": None}, "not a JSON object"),
    ],
)
def test_b_a_call_that_is_not_valid_is_refused(function: Any, words: str) -> None:
    message = {**ASSISTANT, "tool_calls": [{**CALL, "function": function}]}
    assert words in complain(Strict(), [USER, message, ANSWER])


@pytest.mark.parametrize(
    ("strict", "message", "words"),
    [
        (Strict(null_content=False), {**ASSISTANT, "content": None}, "content None"),
        (Strict(empty_content=False), ASSISTANT, "content ''"),
        (Strict(required_fields=("r",)), ASSISTANT, "r must be passed back"),
        (Strict(unknown_fields=False), {**ASSISTANT, "r": 1}, "unknown field 'r'"),
        (Strict(max_messages=2), ASSISTANT, "maximum context length is 2 messages, not 3"),
    ],
)
def test_b_each_provider_is_particular_about_something_else(
    strict: Strict, message: Any, words: str
) -> None:
    assert words in complain(strict, [USER, message, ANSWER])


def tool(schema: Any, **more: Any) -> list[Any]:
    return [{"type": "function", "function": {"name": "f", "parameters": schema, **more}}]


OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
INNER = {"type": "object", "properties": {"b": {}}, "required": [], "additionalProperties": False}


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([], "must not be empty"),
        (tool(OBJECT) * 2, "must be unique"),
        (tool({"type": "array"}), "of type object"),
        (tool(OBJECT, name="a b"), "does not match"),
        (tool({**OBJECT, "properties": {"a": {"$ref": "#/$defs/A"}}}), "uses $ref"),
        (tool({**OBJECT, "required": []}, strict=True), "must require every property"),
        (tool({**OBJECT, "additionalProperties": True}, strict=True), "additionalProperties"),
        (tool({**OBJECT, "properties": {"a": {"default": 1}}}, strict=True), "has a default"),
        (tool({**OBJECT, "properties": {"a": INNER}}, strict=True), "parameters.a must require"),
        (tool({**OBJECT, "properties": {"a": {"anyOf": [INNER]}}}, strict=True), "a.anyOf[0]"),
        (tool({**OBJECT, "properties": {"a": {"items": INNER}}}, strict=True), "a.items"),
    ],
)
def test_c2_schemas_are_checked(tools: Any, words: str) -> None:
    assert words in complain(Strict(references=False), [USER], tools=tools)


@pytest.mark.parametrize("name", ["tool_choice", "parallel_tool_calls"])
def test_tool_settings_without_tools_are_refused(name: str) -> None:
    assert f"{name} is only allowed" in complain(Strict(), [USER], **{name: "auto"})


def test_a_loose_schema_and_a_strict_one_are_taken() -> None:
    loose = tool({"type": "object", "properties": {"a": {"default": 1}}})
    strict = tool(OBJECT, strict=True)
    with ModelServer(lambda _: "fine", strict=Strict()) as server:
        for tools in (loose, strict):
            body = {"model": "m", "messages": [USER], "tools": tools, "tool_choice": "auto"}
            assert post(server, body)[0] == 200


def make_model() -> FunctionModel:
    return FunctionModel(lambda messages: messages[-1]["content"] * 2)


READY = ScriptedModel(["x"])


def test_it_runs_as_a_process() -> None:
    command = [sys.executable, "-m", "worker.devserver", "--strict"]
    path = "tests.integration.test_devserver:make_model"
    with subprocess.Popen([*command, "--model", path], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        url = run.stdout.readline().strip()
        with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:
            done = client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "ab"}]
            )
        run.send_signal(signal.SIGTERM)
        assert run.wait(10) == 0
    assert done.choices[0].message.content == "abab"


def test_a_model_is_loaded_from_an_attribute_or_its_factory() -> None:
    name = "tests.integration.test_devserver"
    assert isinstance(load(f"{name}:READY"), ScriptedModel)
    assert isinstance(load(f"{name}:make_model"), FunctionModel)
    for path in (f"{name}:nothing", "no_such_module:x", ""):
        with pytest.raises(SystemExit, match=r"package\.module:attribute"):
            load(path)
