"""The server's side of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worker.devserver.strict import WireError
from worker.devserver.wire import event, pieces
from worker.models.base import ModelReply, ModelRequest, Usage

PATH = "/v1/responses"
_ITEMS = frozenset({"message", "function_call", "function_call_output", "reasoning"})


def read_body(body: dict[str, Any]) -> ModelRequest:
    """What the model behind the server is asked, in the chat format."""
    messages: list[dict[str, Any]] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    for item in body.get("input") or ():
        _add(messages, item)
    return ModelRequest(
        messages=messages,
        tools=[_tool(tool) for tool in body.get("tools") or ()],
        tool_choice=_choice(body.get("tool_choice")),
        parallel_tool_calls=body.get("parallel_tool_calls"),
    )


def _add(messages: list[dict[str, Any]], item: dict[str, Any]) -> None:
    """Add an item; those that one reply consisted of become one message again."""
    kind = item.get("type", "message")
    if kind not in _ITEMS:
        raise WireError(f"unknown item type {kind!r}")
    if kind == "function_call_output":
        answer = {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
        messages.append(answer)
    elif kind == "message" and item["role"] != "assistant":
        text = "".join(part.get("text", "") for part in item["content"])
        messages.append({"role": item["role"], "content": text})
    else:
        _add_to_reply(_open_reply(messages), item)


def _open_reply(messages: list[dict[str, Any]]) -> dict[str, Any]:
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _add_to_reply(message: dict[str, Any], item: dict[str, Any]) -> None:
    if item["type"] == "reasoning":
        if not item.get("encrypted_content"):
            raise WireError(f"item {item.get('id')!r} not found: nothing is stored here", 404)
        message["reasoning"] = item["encrypted_content"]
    elif item["type"] == "function_call":
        function = {"name": item["name"], "arguments": item["arguments"]}
        call = {"id": item["call_id"], "type": "function", "function": function}
        message.setdefault("tool_calls", []).append(call)
    else:
        text = "".join(p.get("text", "") for p in item["content"])
        message["content"] = (message["content"] or "") + text


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if "strict" not in tool:
        raise WireError("strict is on unless a tool says otherwise")
    return {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}


def _choice(choice: Any) -> Any:
    if isinstance(choice, dict):
        return {"type": "function", "function": {"name": choice["name"]}}
    return choice


def write_reply(reply: ModelReply, body: dict[str, Any], number: int) -> dict[str, Any]:
    """A response; ``number`` counts the server's answers and makes the ids."""
    cut = reply.finish_reason == "length"
    usage = reply.usage or Usage(0, 0)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": body.get("model") or reply.model,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "output": list(_output(reply.message, number)),
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "total_tokens": usage.total,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        },
    }


def write_events(reply: ModelReply, body: dict[str, Any], number: int) -> Iterator[str]:
    """The same response as the events of a stream; the last holds all of it."""
    whole = write_reply(reply, body, number)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", {"response": begun})
    for place, item in enumerate(whole["output"]):
        opened = {k: v for k, v in item.items() if k not in ("content", "arguments")}
        yield event("response.output_item.added", {"output_index": place, "item": opened})
        yield from _pieces_of(item, place)
        yield event("response.output_item.done", {"output_index": place, "item": item})
    yield event(f"response.{whole['status']}", {"response": whole})


def _pieces_of(item: dict[str, Any], place: int) -> Iterator[str]:
    for piece in pieces(item.get("arguments", "")):
        delta = {"output_index": place, "delta": piece}
        yield event("response.function_call_arguments.delta", delta)
    for number, part in enumerate(item.get("content", ())):
        kind = part["type"]
        for piece in pieces(part.get("text") or part.get("refusal") or ""):
            delta = {"output_index": place, "content_index": number, "delta": piece}
            yield event(f"response.{kind}.delta", delta)


def _output(message: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    if message.get("reasoning"):
        hidden = {"encrypted_content": message["reasoning"], "summary": []}
        yield {"type": "reasoning", "id": f"rs_{number}", **hidden}
    said = list(_said(message))
    if said:
        yield {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": said}
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield {
            "type": "function_call",
            "id": f"fc_{number}_{index}",
            "call_id": call["id"],
            "status": "completed",
            **call["function"],
        }


def _said(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if message.get("content"):
        yield {"type": "output_text", "text": message["content"], "annotations": []}
    if message.get("refusal"):
        yield {"type": "refusal", "refusal": message["refusal"]}
