"""The openai SDK over real sockets against a server that misbehaves on purpose.

Rows A10 to A13, A17, B3 to B5, F1 to F6 and F8, as far as an adapter shows them: it makes one
request per call and says what becomes of the job; waiting and repeating is the worker's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from typing import Any

import pytest

from worker.devserver import Fault, ModelServer, Strict
from worker.models import Message, Model, ModelError, ModelReply, ModelRequest, OpenAIModel, Usage
from worker.models.scripted import ScriptedModel, act, say

KEY = "sk-test-4711"
USER: Message = {"role": "user", "content": "hi"}
REQUEST = ModelRequest([USER])
TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
}
Ask = Callable[..., ModelReply]


def _blocking(model: OpenAIModel, request: ModelRequest = REQUEST) -> ModelReply:
    try:
        return model.reply(request)
    finally:
        model.close()


def _in_a_loop(model: OpenAIModel, request: ModelRequest = REQUEST) -> ModelReply:
    async def asked() -> ModelReply:
        try:
            return await model.areply(request)
        finally:
            await model.aclose()

    return asyncio.run(asked())


@pytest.fixture(params=[_blocking, _in_a_loop], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(ScriptedModel(["Hello."], Usage(5, 7, 2)), strict=Strict()) as running:
        yield running


def model_of(server: ModelServer, **settings: Any) -> OpenAIModel:
    return OpenAIModel("m-1", base_url=server.base_url, api_key=KEY, **settings)


def error_of(ask: Ask, model: OpenAIModel, request: ModelRequest = REQUEST) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ask(model, request)
    assert KEY not in str(caught.value.args)
    return caught.value


def test_an_answer(server: ModelServer, ask: Ask) -> None:
    model = model_of(server)
    assert isinstance(model, Model)
    assert ask(model) == ModelReply(say("Hello."), Usage(5, 7, 2), "stop", "m-1")
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body == {"model": "m-1", "messages": [USER]}


def test_everything_a_request_can_carry(server: ModelServer, ask: Ask) -> None:
    model = model_of(
        server,
        extra_body={"temperature": 0, "thinking": {"type": "disabled"}},
        extra_headers={"X-Tenant": "t"},
        parallel_tool_calls=False,
        tool_choice="required",
    )
    ask(model, ModelRequest([USER], [TOOL]))
    ask(model, ModelRequest([USER], [TOOL], "auto", parallel_tool_calls=True))
    ask(model, ModelRequest([USER], (), "auto", parallel_tool_calls=True))
    first, second, third = server.bodies
    assert first == {
        "model": "m-1",
        "messages": [USER],
        "tools": [TOOL],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0,
        "thinking": {"type": "disabled"},
    }
    assert (second["tool_choice"], second["parallel_tool_calls"]) == ("auto", True)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & third.keys()
    assert server.requests[0].headers["x-tenant"] == "t"


def test_the_settings_come_from_the_environment_at_the_first_call(
    server: ModelServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = OpenAIModel()
    assert model.name == "unnamed"
    monkeypatch.setenv("LLM_API_KEY", f" {KEY}\n")
    monkeypatch.setenv("LLM_BASE_URL", server.base_url)
    monkeypatch.setenv("LLM_MODEL", "from-env")
    assert ask(model).message == say("Hello.")
    assert model.name == "from-env"
    assert server.bodies[0]["model"] == "from-env"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("missing", ["LLM_API_KEY", "LLM_MODEL"])
def test_a_missing_setting_pauses_and_is_named(
    server: ModelServer, ask: Ask, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in {"LLM_API_KEY", "LLM_MODEL"} - {missing}:
        monkeypatch.setenv(name, "x")
    error = error_of(ask, OpenAIModel(base_url=server.base_url))
    assert error.fate == "pause"
    assert missing in error.text
    assert server.count == 0


def test_another_libraries_key_is_not_taken(
    server: ModelServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-us")
    assert error_of(ask, OpenAIModel("m", base_url=server.base_url)).fate == "pause"


@pytest.mark.parametrize("key", ["clé", "two words", "line\nbreak"])
def test_a_key_that_cannot_stand_in_a_header_pauses_without_being_shown(
    server: ModelServer, ask: Ask, key: str
) -> None:
    error = error_of(ask, OpenAIModel("m", base_url=server.base_url, api_key=key))
    assert error.fate == "pause"
    assert "LLM_API_KEY" in error.text
    assert key not in error.text


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://x/v1", "http://[::1/v1"])
def test_an_unusable_address_pauses(ask: Ask, url: str) -> None:
    error = error_of(ask, OpenAIModel("m", base_url=url, api_key=KEY))
    assert (error.fate, error.code) == ("pause", "bad_setting")
    assert "address" in error.text


@pytest.mark.parametrize("name", ["timeout", "total_timeout", "connect_timeout"])
@pytest.mark.parametrize("value", [None, 0, -1.0, float("inf"), float("nan")])
def test_f5_a_time_without_an_end_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        OpenAIModel(**{name: value})


@pytest.mark.parametrize(
    ("body", "code"),
    [({"choices": []}, "empty_response"), ({"id": None, "choices": None, "usage": None}, None)],
)
def test_a10_a11_an_empty_answer_is_tried_again(
    server: ModelServer, ask: Ask, body: Any, code: str | None
) -> None:
    server.faults.append(Fault.body(body))
    error = error_of(ask, model_of(server))
    assert (error.fate, error.code) == ("retry", "empty_response")
    assert ask(model_of(server)).message == say("Hello.")


def test_a11_an_error_in_a_good_answer(server: ModelServer, ask: Ask) -> None:
    for code, fate in ((429, "retry"), (500, "retry"), (402, "pause")):
        server.faults.append(Fault.body({"error": {"code": code, "message": f"busy {KEY}"}}))
        error = error_of(ask, model_of(server))
        assert (error.fate, error.status, error.text) == (fate, code, "busy [secret]")


def test_a12_a_refusal_is_kept(ask: Ask) -> None:
    line = {"content": None, "refusal": "I can't help with that"}
    with ModelServer([line]) as server:
        assert ask(model_of(server)).message["refusal"] == "I can't help with that"


def test_a13_unknown_fields_come_back_to_a_server_that_wants_them(ask: Ask) -> None:
    lines = [act("", ("f",), reasoning_content="because"), "Done."]
    with ModelServer(lines, strict=Strict(required_fields=("reasoning_content",))) as server:
        model = model_of(server)
        first = ask(model).message
        history = [USER, first, {"role": "tool", "tool_call_id": "call_1", "content": "x"}]
        assert ask(model, ModelRequest(history)).message == say("Done.")
        assert server.bodies[1]["messages"][1]["reasoning_content"] == "because"
        del first["reasoning_content"]
        assert error_of(ask, model, ModelRequest(history)).fate == "pause"


def test_a13_one_switch_drops_them_for_a_server_that_refuses_them(ask: Ask) -> None:
    history = [USER, say("a", reasoning_content="because"), USER]
    with ModelServer(["a", "b"], strict=Strict(unknown_fields=False)) as server:
        error = error_of(ask, model_of(server), ModelRequest(history))
        assert (error.fate, "reasoning_content" in error.text) == ("pause", True)
        dropping = model_of(server, drop_fields=True)
        assert ask(dropping, ModelRequest(history)).message == say("b")


@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": 10, "completion_tokens": None}, {"prompt_tokens": 10}]
)
def test_a17_an_incomplete_count_is_no_count(server: ModelServer, ask: Ask, usage: Any) -> None:
    server.faults.append(Fault.edited(lambda body: body.update(usage=usage)))
    assert ask(model_of(server)).usage is None


def test_b3_a_history_that_is_too_long_is_compacted(ask: Ask) -> None:
    history = [USER, say("a")] * 11
    with ModelServer(["x"], strict=Strict(max_messages=20)) as server:
        error = error_of(ask, model_of(server), ModelRequest(history))
        assert (error.fate, error.status) == ("compact", 400)
        assert server.count == 1


@pytest.mark.parametrize(
    ("setting", "strict"),
    [
        ("null", Strict(empty_content=False)),
        ("empty", Strict(null_content=False)),
        ("omit", Strict(null_content=False, empty_content=False)),
    ],
)
def test_b5_each_way_to_say_nothing_suits_its_server(
    ask: Ask, setting: Any, strict: Strict
) -> None:
    history = [USER, act("", ("f",)), {"role": "tool", "tool_call_id": "call_1", "content": "x"}]
    history[1]["tool_calls"][0]["id"] = "call_1"
    with ModelServer(["a", "Done."], strict=strict) as server:
        model = model_of(server, empty_content=setting)
        assert ask(model, ModelRequest(history)).message == say("Done.")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": formatdate(1_700_000_060, usegmt=True)}, 60.0),
        ({"retry-after": "600"}, 600.0),
        ({}, None),
    ],
)
def test_f1_the_wait_is_told_and_not_waited_out(
    server: ModelServer, ask: Ask, headers: dict[str, str], seconds: float | None
) -> None:
    server.faults.append(Fault.status(429, "slow down", headers=headers))
    error = error_of(ask, model_of(server, clock=lambda: 1_700_000_000.0))
    assert (error.fate, error.status, error.retry_after) == ("retry", 429, seconds)
    assert server.count == 1


def test_f1_a_wait_beyond_the_ceiling_pauses(server: ModelServer, ask: Ask) -> None:
    server.faults.append(Fault.status(429, headers={"retry-after": "86400"}))
    assert error_of(ask, model_of(server)).fate == "pause"


def test_f2_a_spent_quota_pauses_after_one_request(server: ModelServer, ask: Ask) -> None:
    server.always = Fault.status(429, "You exceeded your quota", code="insufficient_quota")
    error = error_of(ask, model_of(server))
    assert (error.fate, error.code) == ("pause", "insufficient_quota")
    assert server.count == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_f3_f6_one_request_per_call_and_then_it_may_be_tried_again(
    server: ModelServer, ask: Ask, status: int
) -> None:
    server.faults.append(Fault.status(status, "not now"))
    error = error_of(ask, model_of(server))
    assert (error.fate, error.status, error.text) == ("retry", status, "not now")
    assert server.count == 1
    assert ask(model_of(server)).message == say("Hello.")


@pytest.mark.parametrize(
    ("status", "code"), [(400, None), (401, None), (403, None), (404, "model_not_found")]
)
def test_f4_one_request_and_the_providers_words(
    server: ModelServer, ask: Ask, status: int, code: str | None
) -> None:
    server.always = Fault.status(status, f"no, not with {KEY} or sk-other-1234", code=code)
    error = error_of(ask, model_of(server))
    assert (error.fate, error.status, error.code) == ("pause", status, code or "error")
    assert error.text == "no, not with [secret] or [secret]"
    assert server.count == 1


def test_an_error_page_is_read_as_text(server: ModelServer, ask: Ask) -> None:
    server.faults.append(Fault.status(502, body="<html>Bad Gateway</html>"))
    assert error_of(ask, model_of(server)).text == "<html>Bad Gateway</html>"


def test_a_redirect_is_not_followed_with_the_key(server: ModelServer, ask: Ask) -> None:
    with ModelServer(["x"]) as other:
        address = {"location": f"{other.base_url}/chat/completions"}
        server.always = Fault.status(307, "moved", headers=address)
        assert error_of(ask, model_of(server)).fate == "pause"
        assert other.count == 0


@pytest.mark.parametrize(
    "fault",
    [
        Fault.hang(),
        Fault.drip(0.05),
        Fault.drip(0.05, after=-1),
        Fault.drip(0.05, after=20),
    ],
    ids=["never answers", "drips", "drips the body", "drips the head"],
)
def test_f5_the_total_time_ends_a_call_however_it_is_fed(
    server: ModelServer, ask: Ask, fault: Fault
) -> None:
    server.always = fault
    began = time.monotonic()
    error = error_of(ask, model_of(server, total_timeout=0.5))
    took = time.monotonic() - began
    assert (error.fate, error.code) == ("retry", "timeout")
    assert 0.4 < took < 3


def test_f5_silence_ends_a_call_before_its_total_time(server: ModelServer, ask: Ask) -> None:
    server.always = Fault.hang()
    began = time.monotonic()
    error = error_of(ask, model_of(server, timeout=0.3, total_timeout=60))
    assert (error.fate, error.code) == ("retry", "timeout")
    assert time.monotonic() - began < 5


def test_f5_waiting_for_a_connection_counts(server: ModelServer) -> None:
    server.always = Fault.hang()
    model = model_of(server, total_timeout=0.5, max_connections=1)
    began = time.monotonic()
    with ThreadPoolExecutor(3) as pool:
        errors = list(pool.map(lambda _: error_of(OpenAIModel.reply, model), range(3)))
    assert {(e.fate, e.code) for e in errors} == {("retry", "timeout")}
    assert server.connections <= 3
    assert time.monotonic() - began < 5
    model.close()


def test_nobody_there_is_tried_again(ask: Ask) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        error = error_of(ask, OpenAIModel("m", base_url=url, api_key=KEY))
    assert (error.fate, error.code) == ("retry", "connection")
    assert "refused" in error.text or "failed" in error.text


@pytest.mark.parametrize("fault", [Fault.reset(), Fault.truncated()], ids=["reset", "truncated"])
def test_a_connection_that_breaks_is_tried_again(
    server: ModelServer, ask: Ask, fault: Fault
) -> None:
    server.faults.append(fault)
    model = model_of(server)
    assert error_of(ask, model).fate == "retry"
    assert ask(model).message == say("Hello.")


@pytest.mark.parametrize("body", ["", "{", "<html>", '{"choices": [{"message": {"content": "'])
def test_malformed_json_is_tried_again(server: ModelServer, ask: Ask, body: str) -> None:
    server.faults.append(Fault.body(body))
    error = error_of(ask, model_of(server))
    assert (error.fate, error.code) == ("retry", "malformed_answer")


def test_a_server_without_encryption_is_tried_again_as_https(server: ModelServer, ask: Ask) -> None:
    url = server.base_url.replace("http:", "https:")
    model = OpenAIModel("m", base_url=url, api_key=KEY, connect_timeout=0.5)
    assert error_of(ask, model).fate == "retry"


@pytest.mark.real_model
def test_a_proxy_of_the_environment_is_used(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"user:pass@127.0.0.1:{server.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    model = OpenAIModel("m", base_url="http://model.invalid/v1", api_key=KEY)
    # A proxy is asked for the whole address, which this server does not know.
    error = error_of(_blocking, model)
    assert (error.status, error.fate) == (404, "pause")
    assert "http://model.invalid/v1/chat/completions" in error.text


def test_f8_calls_one_after_another_keep_one_connection(server: ModelServer) -> None:
    model = model_of(server)
    for _ in range(5):
        model.reply(REQUEST)
    assert server.connections == 1
    model.close()


def test_f8_many_threads_share_a_bounded_pool(server: ModelServer) -> None:
    model = model_of(server, max_connections=3)
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda _: model.reply(REQUEST), range(60)))
    assert {r.message["content"] for r in replies} == {"Hello."}
    assert server.connections <= 3
    model.close()


def test_f8_event_loops_one_after_another_leave_no_connection(server: ModelServer) -> None:
    model = model_of(server)

    async def twice() -> None:
        await asyncio.gather(model.areply(REQUEST), model.areply(REQUEST))

    for _ in range(3):
        asyncio.run(twice())
    assert server.count == 6
    server.wait_for_connections(0)


def test_an_event_loops_connections_can_be_closed_before_it_ends(server: ModelServer) -> None:
    async def call_and_close() -> None:
        model = model_of(server)
        await model.areply(REQUEST)
        await model.aclose()
        await model.aclose()
        await model.areply(REQUEST)

    asyncio.run(call_and_close())
    assert server.connections == 2


# The server of this test is a thread; workers fork before they have any.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_opens_its_own_connection(server: ModelServer) -> None:
    model = model_of(server)
    model.reply(REQUEST)
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:  # pragma: no cover
        try:
            text = model.reply(REQUEST).message["content"]
        except BaseException as error:  # noqa: BLE001  # a forked child must end right here
            text = repr(error)
        os.write(writing, text.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1000) == b"Hello."
    os.close(reading)
    os.close(writing)
    assert model.reply(REQUEST).message["content"] == "Hello."
    assert server.connections == 2
    model.close()


def test_a_cancelled_call_gives_its_connection_up(server: ModelServer) -> None:
    server.faults.append(Fault.hang())
    model = model_of(server, max_connections=1)

    async def cancel_one() -> ModelReply:
        call = asyncio.create_task(model.areply(REQUEST))
        await asyncio.to_thread(server.wait_for, 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await model.areply(REQUEST)

    assert asyncio.run(cancel_one()).message == say("Hello.")


def test_the_request_is_left_as_it_was(server: ModelServer, ask: Ask) -> None:
    history: list[Message] = [USER, {"role": "assistant", "content": None, "x": None}, USER]
    before = [dict(m) for m in history]
    with pytest.raises(ModelError):
        ask(model_of(server, drop_fields=True), ModelRequest(history))
    assert history == before


def test_neither_key_nor_text_stands_in_the_logs(
    server: ModelServer, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.faults.append(Fault.status(401, f"bad key {KEY}"))
    model = model_of(server)
    error_of(ask, model, ModelRequest([{"role": "user", "content": "a secret task"}]))
    ask(model, ModelRequest([{"role": "user", "content": "a secret task"}]))
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert text
    assert KEY not in text
    assert "a secret task" not in text
    assert KEY not in repr(model)
