"""Blocks, Responses and Messages bodies: what the three-format talk does not reach."""

from __future__ import annotations

import json
from typing import Any

import pytest

from worker.models import messages_body, responses_body
from worker.models.base import Message, ModelRequest
from worker.models.blocks import in_order, make_call, set_order

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LINKED = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
T, C1, C2, R = {"t": 1}, {"c": 1}, {"c": 2}, {"type": "reasoning"}


def bodies(*messages: Message) -> tuple[dict[str, Any], dict[str, Any]]:
    request = ModelRequest(messages)
    return (
        responses_body.write_request(request, "m", {}),
        messages_body.write_request(request, "m", 9, {}),
    )


def test_blocks_keep_their_order() -> None:
    message: Message = {}
    set_order(message, "f", [R, "call", R, "text", "call"])
    assert in_order(message, "f", [T], [C1, C2]) == [R, C1, R, T, C2]


def test_an_ordinary_order_is_not_kept() -> None:
    message: Message = {}
    set_order(message, "f", ["text", "call"])
    assert message == {}
    assert in_order(message, "f", [T], [C1, C2]) == [T, C1, C2]


def test_nothing_is_lost_when_the_order_does_not_fit_any_more() -> None:
    assert in_order({"f": [R, "call", "call"]}, "f", [T], [C1]) == [R, C1, T]
    assert in_order({"f": [R, "what"]}, "f", [T], [C1]) == [R, T, C1]


def test_pictures_are_translated() -> None:
    user = {"role": "user", "content": [{"type": "text", "text": "see"}, PICTURE, LINKED]}
    responses, messages = bodies(user)
    assert responses["input"][0]["content"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_image", "image_url": "https://x/y.png"},
    ]
    assert messages["messages"][0]["content"] == [
        {"type": "text", "text": "see"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        },
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
    ]


def test_without_instructions_and_tools_nothing_is_said_about_them() -> None:
    responses, messages = bodies({"role": "user", "content": "x"})
    assert responses.keys() == {"model", "input", "store"}
    assert messages.keys() == {"model", "max_tokens", "messages"}


def test_arguments_that_are_no_object_are_sent_as_an_empty_one() -> None:
    calls = [make_call("c", "f", text) for text in ("[1]", "{", "{}")]
    _, messages = bodies({"role": "assistant", "content": "", "tool_calls": calls})
    assert [b["input"] for b in messages["messages"][0]["content"]] == [{}, {}, {}]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "{}"), ("", ""), ("{", "{"), ({"ä": 1}, '{"ä": 1}'), ([], "[]")]
)
def test_a_calls_arguments_become_text(value: Any, text: str) -> None:
    assert make_call("c", "f", value)["function"]["arguments"] == text


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
        (None, None),
    ],
)
def test_a18_stop_reasons_are_translated_and_unknown_ones_handed_on(
    stop: str | None, reason: str | None
) -> None:
    body = {"content": [{"type": "text", "text": "x"}], "stop_reason": stop}
    assert messages_body.read_message(json.dumps(body).encode()).finish_reason == reason


def test_unknown_items_and_parts_are_no_trouble() -> None:
    items = [None, {"type": "web_search_call"}, {"type": "message", "content": None}]
    text = {"type": "message", "content": [{"type": "new"}, {"type": "output_text", "text": "x"}]}
    body = {"output": [*items, text], "status": "incomplete", "incomplete_details": None}
    reply = responses_body.read_response(json.dumps(body).encode())
    assert reply.message == {"role": "assistant", "content": "x"}
    assert reply.finish_reason is None


def test_tokens_written_to_the_cache_are_part_of_the_prompt() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 30}
    usage["cache_creation_input_tokens"] = 400
    content = [{"type": "text", "text": "x"}]
    body = {"content": content, "stop_reason": "end_turn", "usage": usage}
    found = messages_body.read_message(json.dumps(body).encode()).usage
    assert found is not None
    assert (found.prompt_tokens, found.cached_tokens, found.total) == (431, 30, 433)
