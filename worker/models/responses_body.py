"""The wire format of OpenAI's Responses API: what is sent, and what comes back."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from worker.models.base import Message, ModelReply, ModelRequest, Usage
from worker.models.blocks import (
    CALL,
    RESPONSE_ITEMS,
    TEXT,
    Block,
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

_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def write_request(request: ModelRequest, model: str, extra: dict[str, Any]) -> dict[str, Any]:
    """The body of a request. Nothing is kept at the provider: the whole list is sent each time."""
    body: dict[str, Any] = {
        "model": model,
        "input": [item for m in _talk(request) for item in _items(m)],
        "store": False,
    }
    instructions = leading_instructions(request.messages)
    if instructions:
        body["instructions"] = instructions
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = _choice(request.tool_choice)
        if request.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = request.parallel_tool_calls
    return {**body, **extra}


def _talk(request: ModelRequest) -> Iterator[Message]:
    """The messages after the instructions at the beginning."""
    begun = False
    for message in request.messages:
        begun = begun or not is_system(message)
        if begun:
            yield message


def _items(message: Message) -> list[Block]:
    """One message as items of the input."""
    if message["role"] == "tool":
        output = plain_text(message.get("content"))
        call_id = message["tool_call_id"]
        return [{"type": "function_call_output", "call_id": call_id, "output": output}]
    if message["role"] != "assistant":
        parts = convert_parts(message.get("content"), _text_part, _image_part)
        return [{"type": "message", "role": message["role"], "content": list(parts)}]
    text = plain_text(message.get("content"))
    said = [{"type": "output_text", "text": text}] if text else []
    if message.get("refusal"):
        said.append({"type": "refusal", "refusal": message["refusal"]})
    texts = [{"type": "message", "role": "assistant", "content": said}] if said else []
    calls = [_call_item(call) for call in message.get("tool_calls") or ()]
    return in_order(message, RESPONSE_ITEMS, texts, calls)


def _call_item(call: dict[str, Any]) -> Block:
    function = call["function"]
    return {
        "type": "function_call",
        "call_id": call["id"],
        "name": function["name"],
        "arguments": function["arguments"],
    }


def _text_part(text: str) -> Block:
    return {"type": "input_text", "text": text}


def _image_part(url: str) -> Block:
    return {"type": "input_image", "image_url": url}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool; here it is strict unless one says that it is not."""
    function = tool["function"]
    return {"type": "function", **function, "strict": bool(function.get("strict"))}


def _choice(choice: str | dict[str, Any]) -> str | dict[str, Any]:
    if isinstance(choice, dict) and "function" in choice:
        return {"type": "function", "name": choice["function"]["name"]}
    return choice


def read_response(
    raw: bytes, *, retry_after: float | None = None, secrets: Collection[str] = ()
) -> ModelReply:
    """The reply in a body that came with status 200.

    Raises:
        ModelError: when the body is no response, holds an error, or says nothing.
    """
    body = from_json(raw)
    if isinstance(body, dict) and body.get("error"):
        raise judge(failure_from_body(body, retry_after=retry_after), secrets=secrets)
    output = body.get("output") if isinstance(body, dict) else None
    items = [i for i in output if isinstance(i, dict)] if isinstance(output, list) else []
    message = _message(items)
    reason = _finish_reason(body, message)
    if reason == "stop" and not any(message.get(k) for k in ("content", "refusal")):
        raise empty_response()
    return ModelReply(message, _usage(body.get("usage")), reason, str(body.get("model") or ""))


def _message(items: list[Block]) -> Message:
    """The items as one message of the chat format."""
    parts = [p for i in items if i.get("type") == "message" for p in i.get("content") or ()]
    calls = [
        make_call(i.get("call_id"), i.get("name"), i.get("arguments"))
        for i in items
        if i.get("type") == "function_call"
    ]
    texts = [str(p.get("text") or "") for p in parts if p.get("type") == "output_text"]
    refused = "".join(str(p.get("refusal") or "") for p in parts if p.get("type") == "refusal")
    message = make_message(texts, calls, refused or None)
    set_order(message, RESPONSE_ITEMS, list(_order(items)))
    return message


def _order(items: list[Block]) -> Iterator[Block | str]:
    """The order of the items; reasoning that cannot be sent back is left out."""
    for item in items:
        if item.get("type") == "message":
            yield TEXT
        elif item.get("type") == "function_call":
            yield CALL
        elif item.get("encrypted_content"):
            yield {k: v for k, v in item.items() if k != "status"}


def _finish_reason(body: Any, message: Message) -> str | None:
    """The reason in the words of the chat format."""
    if isinstance(body, dict) and body.get("status") == "incomplete":
        why = (body.get("incomplete_details") or {}).get("reason")
        return _FINISH.get(str(why), why)
    return "tool_calls" if message.get("tool_calls") else "stop"


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    prompt, completion = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    if prompt is None or completion is None:
        return None
    cached = count((usage.get("input_tokens_details") or {}).get("cached_tokens"))
    return Usage(prompt, completion, cached or 0)
