"""Chat completions on the wire. Rows A1, A10, A11, A13, A17, B5."""

from __future__ import annotations

import json
from typing import Any

import pytest

from worker.models.base import ModelError, ModelReply, ModelRequest, Usage
from worker.models.completion import (
    Dialect,
    EmptyContent,
    read_completion,
    read_usage,
    write_request,
)
from worker.models.json_body import from_json, to_json

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def read(body: Any) -> ModelReply:
    return read_completion(json.dumps(body).encode())


def completion(message: Any, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "model": "m-1", "choices": [choice], **fields}


def test_a_completion_is_read() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    reply = read(completion({"role": "assistant", "content": "hi"}, usage=usage))
    assert reply == ModelReply(
        {"role": "assistant", "content": "hi"}, Usage(3, 4), finish_reason="stop", model="m-1"
    )


def test_a13_unknown_fields_stay_and_nulls_go() -> None:
    message = {"content": None, "tool_calls": [CALL], "reasoning_content": "r", "audio": None}
    assert read(completion(message)).message == {
        "role": "assistant",
        "content": None,
        "tool_calls": [CALL],
        "reasoning_content": "r",
    }


@pytest.mark.parametrize(
    "body",
    [
        {"choices": []},
        {"id": None, "choices": None, "usage": None},
        {},
        [],
        None,
        "text",
        {"choices": [None]},
        {"choices": [{"message": None}]},
        completion({"role": "assistant", "content": None}),
        completion({"role": "assistant", "content": "", "tool_calls": []}),
    ],
)
def test_a10_an_empty_response_is_tried_again_and_says_so(body: Any) -> None:
    with pytest.raises(ModelError) as caught:
        read(body)
    assert (caught.value.fate, caught.value.code) == ("retry", "empty_response")
    assert "empty response" in caught.value.text


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_empty_message_with_a_reason_is_a_reply(reason: str) -> None:
    body = completion({"content": None})
    body["choices"][0]["finish_reason"] = reason
    assert read(body).finish_reason == reason


@pytest.mark.parametrize(
    ("body", "fate"),
    [
        ({"error": {"code": 429, "message": "busy"}}, "retry"),
        ({"error": {"code": 502, "message": "busy"}, "choices": []}, "retry"),
        ({"error": {"code": 400, "message": "bad"}}, "pause"),
        ({"choices": [{"error": {"code": 502, "message": "busy"}}]}, "retry"),
    ],
)
def test_a11_an_error_in_a_200_is_judged(body: Any, fate: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(body)
    assert caught.value.fate == fate
    assert caught.value.text in ("busy", "bad")


def test_an_empty_error_beside_choices_is_no_error() -> None:
    assert read(completion({"content": "hi"}, error=None)).message["content"] == "hi"


def test_malformed_json_is_tried_again() -> None:
    with pytest.raises(ModelError) as caught:
        read_completion(b"<html>oops")
    assert (caught.value.fate, caught.value.code) == ("retry", "malformed_answer")
    assert "<html>oops" in caught.value.text


def test_a_body_in_no_encoding_is_tried_again() -> None:
    with pytest.raises(ModelError, match="not JSON"):
        from_json(b'{"a": "\xff\xff"}')


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_is_not() -> None:
    assert from_json(b'{"a\\ud83d": ["\\ud83d\\ude00", "\\uDE00x", 1]}') == {
        "a\ufffd": ["😀", "\ufffdx", 1]
    }


@pytest.mark.parametrize(
    "usage",
    [
        None,
        "many",
        {"prompt_tokens": 10, "completion_tokens": None},
        {"prompt_tokens": True, "completion_tokens": 1},
        {"prompt_tokens": -1, "completion_tokens": 1},
        {"completion_tokens": 1},
        {},
    ],
)
def test_a17_an_incomplete_count_is_no_count(usage: Any) -> None:
    assert read_usage(usage) is None


@pytest.mark.parametrize(
    ("more", "cached"),
    [
        ({}, 0),
        ({"prompt_tokens_details": {"cached_tokens": 7}}, 7),
        ({"prompt_tokens_details": {"cached_tokens": None}}, 0),
        ({"prompt_cache_hit_tokens": 5}, 5),
    ],
)
def test_cached_tokens_are_read_where_providers_put_them(more: Any, cached: int) -> None:
    assert read_usage({"prompt_tokens": 9, "completion_tokens": 1, **more}) == Usage(9, 1, cached)


@pytest.mark.parametrize("content", [None, "", "left out"])
@pytest.mark.parametrize(
    ("setting", "written"), [("null", {"content": None}), ("empty", {"content": ""}), ("omit", {})]
)
def test_b5_one_setting_decides_how_missing_text_beside_calls_is_written(
    setting: EmptyContent, written: dict[str, Any], content: str | None
) -> None:
    message = {"role": "assistant", "content": content, "tool_calls": [CALL]}
    if content == "left out":
        del message["content"]
    sent = Dialect(empty_content=setting).write([message])[0]
    assert sent == {"role": "assistant", "tool_calls": [CALL], **written}


def test_missing_text_without_calls_is_always_an_empty_string() -> None:
    sent = Dialect(empty_content="omit").write([{"role": "assistant", "content": None}])
    assert sent == [{"role": "assistant", "content": ""}]


def test_messages_that_need_no_change_are_not_copied() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "x", "r": 1},
    ]
    sent = Dialect().write(messages)
    assert all(a is b for a, b in zip(sent, messages, strict=True))


def test_a13_named_or_all_unknown_fields_can_be_dropped() -> None:
    signed = {**CALL, "index": 0, "extra": 1}
    signed["function"] = {**CALL["function"], "parsed": 1}  # type: ignore[dict-item]
    message = {"role": "assistant", "content": "x", "tool_calls": [signed], "reasoning": "r"}
    before = json.dumps(message)
    assert Dialect(drop_fields=("reasoning",)).write([message])[0]["tool_calls"] == [signed]
    assert Dialect(drop_fields=True).write([message]) == [
        {"role": "assistant", "content": "x", "tool_calls": [CALL]}
    ]
    assert json.dumps(message) == before


def test_what_concerns_tools_is_sent_only_with_tools() -> None:
    chosen = ModelRequest([], (), "auto", parallel_tool_calls=False)
    assert write_request(chosen, "m", Dialect(), {}) == {"model": "m", "messages": []}
    chosen = ModelRequest([], [TOOL], "auto", parallel_tool_calls=False)
    assert write_request(chosen, "m", Dialect(), {"temperature": 0}) == {
        "model": "m",
        "messages": [],
        "tools": [TOOL],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "temperature": 0,
    }


def test_unset_choices_are_not_sent() -> None:
    assert "tool_choice" not in write_request(ModelRequest([], [TOOL]), "m", Dialect(), {})


def test_a_lone_surrogate_in_a_message_does_not_stop_the_request() -> None:
    assert json.loads(to_json({"a": "x\ud83dy"})) == {"a": "x?y"}


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}])
def test_a_request_that_is_not_json_fails_the_job(value: Any) -> None:
    with pytest.raises(ModelError) as caught:
        to_json({"a": value})
    assert (caught.value.fate, caught.value.code) == ("fail", "not_json")
