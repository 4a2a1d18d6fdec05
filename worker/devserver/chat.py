"""The server's side of OpenAI's chat completions: requests read, replies and streams written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from worker.devserver.wire import pieces
from worker.models.base import ModelReply, ModelRequest, Usage

PATH = "/v1/chat/completions"


def read_body(body: dict[str, Any]) -> ModelRequest:
    """What the model behind the server is asked."""
    return ModelRequest(
        messages=body.get("messages") or [],
        tools=body.get("tools") or (),
        tool_choice=body.get("tool_choice"),
        parallel_tool_calls=body.get("parallel_tool_calls"),
    )


def write_reply(reply: ModelReply, body: dict[str, Any], number: int) -> dict[str, Any]:
    """A completion; ``number`` counts the server's answers and makes the id."""
    choice = {"index": 0, "message": reply.message, "finish_reason": _reason(reply)}
    return {**_frame(reply, body, number, "chat.completion"), "choices": [choice], **_usage(reply)}


def write_events(reply: ModelReply, body: dict[str, Any], number: int) -> Iterator[str]:
    """The same completion as the events of a stream."""
    frame = _frame(reply, body, number, "chat.completion.chunk")
    for delta in _deltas(reply.message):
        yield _event({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    last = {"index": 0, "delta": {}, "finish_reason": _reason(reply)}
    yield _event({**frame, "choices": [last]})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**frame, "choices": [], **_usage(reply)})
    yield "data: [DONE]\n\n"


def _frame(reply: ModelReply, body: dict[str, Any], number: int, kind: str) -> dict[str, Any]:
    model = body.get("model") or reply.model
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 0, "model": model}


def _reason(reply: ModelReply) -> str:
    made = "tool_calls" if reply.message.get("tool_calls") else "stop"
    return reply.finish_reason or made


def _usage(reply: ModelReply) -> dict[str, Any]:
    usage = reply.usage or Usage(0, 0)
    return {
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.total,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        }
    }


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The message in small pieces: the role, other fields, the text, then the calls."""
    others = {k: v for k, v in message.items() if k not in ("role", "content", "tool_calls")}
    yield {"role": "assistant", "content": "", **others}
    for piece in pieces(message.get("content") or ""):
        yield {"content": piece}
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        opened = {**call, "index": index, "function": {**function, "arguments": ""}}
        yield {"tool_calls": [opened]}
        for piece in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
