"""The server's side of Anthropic's Messages API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from worker.devserver.strict import WireError
from worker.devserver.wire import event, pieces
from worker.models.base import ModelReply, ModelRequest, Usage

PATH = "/v1/messages"
_STOP = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


def read_body(body: dict[str, Any]) -> ModelRequest:
    """What the model behind the server is asked, in the chat format."""
    if not isinstance(body.get("max_tokens"), int):
        raise WireError("max_tokens: field required")
    system = body.get("system")
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    role = "assistant"
    for turn in body.get("messages") or ():
        if turn["role"] == role or turn["role"] not in ("user", "assistant"):
            raise WireError(f"messages: {turn['role']!r} cannot follow {role!r} here")
        role = turn["role"]
        messages += _read_user(turn) if role == "user" else [_read_assistant(turn)]
    choice = body.get("tool_choice") or {}
    return ModelRequest(
        messages=messages,
        tools=[_tool(tool) for tool in body.get("tools") or ()],
        tool_choice=_choice(choice),
        parallel_tool_calls=False if choice.get("disable_parallel_tool_use") else None,
    )


def _blocks_of(turn: dict[str, Any]) -> list[dict[str, Any]]:
    content = turn["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not blocks or any(b["type"] == "text" and not b["text"].strip() for b in blocks):
        raise WireError("messages: text content blocks must be non-empty")
    return list(blocks)


def _read_user(turn: dict[str, Any]) -> Iterator[dict[str, Any]]:
    texts: list[str] = []
    for block in _blocks_of(turn):
        if block["type"] == "tool_result":
            if texts:
                raise WireError("messages: tool_result blocks must come first")
            answer = {"role": "tool", "tool_call_id": block["tool_use_id"]}
            yield {**answer, "content": block["content"]}
        else:
            texts.append(block.get("text", ""))
    if texts:
        yield {"role": "user", "content": "".join(texts)}


def _read_assistant(turn: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for block in _blocks_of(turn):
        if block["type"] == "text":
            message["content"] = (message["content"] or "") + block["text"]
        elif block["type"] == "tool_use":
            message.setdefault("tool_calls", []).append(_read_call(block))
        elif block["type"] == "thinking":
            message["thinking"] = block["thinking"]
    return message


def _read_call(block: dict[str, Any]) -> dict[str, Any]:
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
        raise WireError(f"tool_use.id: {block['id']!r} does not match the pattern")
    if not isinstance(block["input"], dict):
        raise WireError("tool_use.input: must be an object")
    arguments = json.dumps(block["input"], ensure_ascii=False)
    function = {"name": block["name"], "arguments": arguments}
    return {"id": block["id"], "type": "function", "function": function}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "parameters": tool["input_schema"]}
    return {
        "type": "function",
        "function": {**function, "description": tool.get("description", "")},
    }


def _choice(choice: dict[str, Any]) -> Any:
    kind = choice.get("type")
    if kind == "tool":
        return {"type": "function", "function": {"name": choice["name"]}}
    return {"any": "required"}.get(str(kind), kind)


def write_reply(reply: ModelReply, body: dict[str, Any], number: int) -> dict[str, Any]:
    """A message; ``number`` counts the server's answers and makes the id."""
    usage = reply.usage or Usage(0, 0)
    made = "tool_calls" if reply.message.get("tool_calls") else "stop"
    refused = "refusal" if reply.message.get("refusal") else None
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model") or reply.model,
        "content": list(_content(reply.message)),
        "stop_reason": refused or _STOP.get(reply.finish_reason or made, reply.finish_reason),
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.prompt_tokens - usage.cached_tokens,
            "output_tokens": usage.completion_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
            "cache_creation_input_tokens": 0,
        },
    }


def write_events(reply: ModelReply, body: dict[str, Any], number: int) -> Iterator[str]:
    """The same message as the events of a stream."""
    whole = write_reply(reply, body, number)
    begun = {**whole, "content": [], "stop_reason": None}
    begun["usage"] = {**whole["usage"], "output_tokens": 1}
    yield event("message_start", {"message": begun})
    yield event("ping", {})
    for place, block in enumerate(whole["content"]):
        opened = {**block, **{k: "" for k in ("text", "thinking", "signature") if k in block}}
        if "input" in block:
            opened["input"] = {}
        yield event("content_block_start", {"index": place, "content_block": opened})
        for delta in _deltas(block):
            yield event("content_block_delta", {"index": place, "delta": delta})
        yield event("content_block_stop", {"index": place})
    stop = {k: whole[k] for k in ("stop_reason", "stop_sequence")}
    tokens = {"output_tokens": whole["usage"]["output_tokens"]}
    yield event("message_delta", {"delta": stop, "usage": tokens})
    yield event("message_stop", {})


def _deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if block["type"] == "tool_use":
        text = json.dumps(block["input"], ensure_ascii=False)
        for piece in ("", *pieces(text)):
            yield {"type": "input_json_delta", "partial_json": piece}
        return
    field = block["type"]
    for piece in pieces(block[field]):
        yield {"type": f"{field}_delta", field: piece}
    if "signature" in block:
        yield {"type": "signature_delta", "signature": block["signature"]}


def _content(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if message.get("thinking"):
        yield {"type": "thinking", "thinking": message["thinking"], "signature": "signed"}
    text = message.get("content") or message.get("refusal")
    if text:
        yield {"type": "text", "text": text}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        values = json.loads(function["arguments"])
        yield {"type": "tool_use", "id": call["id"], "name": function["name"], "input": values}
