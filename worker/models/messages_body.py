"""The wire format of Anthropic's Messages API: what is sent, and what comes back."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from worker.models.base import Message, ModelReply, ModelRequest, Usage
from worker.models.blocks import (
    CALL,
    CONTENT_BLOCKS,
    TEXT,
    Block,
    argument_values,
    convert_parts,
    in_order,
    is_system,
    leading_instructions,
    make_call,
    make_message,
    plain_text,
    set_order,
)
from worker.models.classify import failure_from_body, judge
from worker.models.json_body import count, empty_response, from_json

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_NOTHING_SAID = "(no text)"
"""Stands where the API wants text and there is none."""


def write_request(
    request: ModelRequest, model: str, max_tokens: int, extra: dict[str, Any]
) -> dict[str, Any]:
    """The body of a request."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens,
        "messages": _merged(request.messages),
    }
    system = leading_instructions(request.messages)
    if system:
        body["system"] = system
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        choice = _choice(request.tool_choice, request.parallel_tool_calls)
        if choice is not None:
            body["tool_choice"] = choice
    return {**body, **extra}


def _merged(messages: Sequence[Message]) -> list[Block]:
    """The talk in turns: neighbours of one role become one message, results before texts."""
    turns: list[Block] = []
    begun = False
    for message in messages:
        begun = begun or not is_system(message)
        if not begun:
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = list(_blocks(message))
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message) -> Iterator[Block]:
    """One message as content blocks, at least one."""
    if message["role"] == "tool":
        yield {
            "type": "tool_result",
            "tool_use_id": _id(message["tool_call_id"]),
            "content": plain_text(message.get("content")),
        }
        return
    found = list(_assistant_blocks(message) if message["role"] == "assistant" else _said(message))
    yield from found or [_text_block(_NOTHING_SAID)]


def _said(message: Message) -> Iterator[Block]:
    return convert_parts(message.get("content"), _text_block, _image_block)


def _assistant_blocks(message: Message) -> list[Block]:
    text = plain_text(message.get("content"))
    texts = [_text_block(text)] if text.strip() else []
    calls = [
        {
            "type": "tool_use",
            "id": _id(call["id"]),
            "name": call["function"]["name"],
            "input": argument_values(call["function"]["arguments"]),
        }
        for call in message.get("tool_calls") or ()
    ]
    return in_order(message, CONTENT_BLOCKS, texts, calls)


def _id(call_id: str) -> str:
    """An id in the letters that this API takes; ids of other providers may have more."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)


def _text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def _image_block(url: str) -> Block:
    """A picture, by its address or out of a ``data:`` URL."""
    found = re.match(r"data:([\w/+.-]+);base64,", url)
    if found is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    data = {"type": "base64", "media_type": found[1], "data": url[found.end() :]}
    return {"type": "image", "source": data}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    described = {"description": function["description"]} if function.get("description") else {}
    return {"name": function["name"], **described, "input_schema": schema}


def _choice(choice: str | dict[str, Any] | None, parallel: bool | None) -> dict[str, Any] | None:
    """The choice of a tool; forbidding parallel calls is a part of it here."""
    if isinstance(choice, dict):
        found = {"type": "tool", "name": choice["function"]["name"]}
    else:
        kind = {"required": "any", "none": "none"}.get(choice or "auto", "auto")
        found = {"type": kind}
    if parallel is False and found["type"] != "none":
        return {**found, "disable_parallel_tool_use": True}
    return found if choice is not None else None


def read_message(
    raw: bytes, *, retry_after: float | None = None, secrets: Collection[str] = ()
) -> ModelReply:
    """The reply in a body that came with status 200.

    Raises:
        ModelError: when the body is no message, holds an error, or says nothing.
    """
    body = from_json(raw)
    if isinstance(body, dict) and body.get("error"):
        raise judge(failure_from_body(body, retry_after=retry_after), secrets=secrets)
    content = body.get("content") if isinstance(body, dict) else None
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    stop = body.get("stop_reason") if isinstance(body, dict) else None
    if stop == "max_tokens" and blocks and blocks[-1].get("type") == "tool_use":
        # The input of a call that was cut looks complete here, so it is marked as missing.
        blocks[-1] = {**blocks[-1], "input": ""}
    message = _message(blocks, refused=stop == "refusal")
    reason = _FINISH.get(stop, stop) if isinstance(stop, str) else None
    if reason in ("stop", None) and not any(message.get(k) for k in ("content", "tool_calls")):
        raise empty_response()
    return ModelReply(message, _usage(body.get("usage")), reason, str(body.get("model") or ""))


def _message(blocks: list[Block], *, refused: bool) -> Message:
    texts = [str(b.get("text") or "") for b in blocks if b.get("type") == "text"]
    calls = [
        make_call(b.get("id"), b.get("name"), b.get("input"))
        for b in blocks
        if b.get("type") == "tool_use"
    ]
    refusal = ("".join(texts) or "the model refused") if refused else None
    message = make_message([] if refused else texts, calls, refusal)
    set_order(message, CONTENT_BLOCKS, list(_order(blocks)))
    return message


def _order(blocks: list[Block]) -> Iterator[Block | str]:
    for block in blocks:
        if block.get("type") == "text":
            yield TEXT
        elif block.get("type") == "tool_use":
            yield CALL
        else:
            yield block


def _usage(usage: Any) -> Usage | None:
    """The count; what was read from or written to the cache is part of the prompt."""
    if not isinstance(usage, dict):
        return None
    fresh, completion = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    if fresh is None or completion is None:
        return None
    cached = count(usage.get("cache_read_input_tokens")) or 0
    written = count(usage.get("cache_creation_input_tokens")) or 0
    return Usage(fresh + cached + written, completion, cached)
