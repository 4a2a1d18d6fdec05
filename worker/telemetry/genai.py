"""Attributes of spans by OpenTelemetry's semantic conventions for generative AI.

Content (messages, arguments, results) is a part of its own: it is recorded only if a setting
says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from api_client.contract import JobSpec, JobView
from worker.models.base import ModelReply
from worker.telemetry.observer import ModelCall, ToolCall
from worker.tools import Observation

Attributes = dict[str, Any]

_PROVIDERS = (
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini", "gcp.gemini"),
    ("mistral", "mistral_ai"),
    ("deepseek", "deepseek"),
    ("grok", "x_ai"),
)


def provider_of(model: str) -> str:
    """The provider that a model's name tells of; ``custom`` for any other."""
    plain = model.rpartition("/")[2].lower()
    return next((name for start, name in _PROVIDERS if plain.startswith(start)), "custom")


def of_job(spec: JobSpec) -> Attributes:
    """What all spans of a job say."""
    attributes: Attributes = {
        "gen_ai.agent.name": spec.agent,
        "gen_ai.conversation.id": spec.job_id,
        "stepkeeper.job.id": spec.job_id,
    }
    if spec.tenant:
        attributes["stepkeeper.tenant"] = spec.tenant
    return attributes


def of_agent(view: JobView) -> Attributes:
    """The job's own span."""
    usage = view.usage
    attributes = {
        **of_job(view.spec),
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "stepkeeper",
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "stepkeeper.status": str(view.status),
        "stepkeeper.steps": view.steps,
        "stepkeeper.active_ms": view.active_ms,
    }
    if usage.cached_tokens:
        attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    if usage.cost is not None:
        attributes["stepkeeper.cost"] = usage.cost
    return attributes


def of_model_call(call: ModelCall) -> Attributes:
    """A ``chat`` span at its start."""
    attributes = {
        **of_job(call.place.spec),
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_of(call.model),
        "gen_ai.request.model": call.model,
        "stepkeeper.step": call.step,
        "stepkeeper.worker": call.place.worker,
        "stepkeeper.epoch": call.place.epoch,
    }
    if call.agent_version:
        attributes["gen_ai.agent.version"] = call.agent_version
    return attributes


def of_reply(reply: ModelReply) -> Attributes:
    """What a reply adds to it."""
    attributes: Attributes = {}
    if reply.model:
        attributes["gen_ai.response.model"] = reply.model
    if reply.finish_reason:
        attributes["gen_ai.response.finish_reasons"] = [reply.finish_reason]
    if reply.usage is not None:
        attributes["gen_ai.usage.input_tokens"] = reply.usage.prompt_tokens
        attributes["gen_ai.usage.output_tokens"] = reply.usage.completion_tokens
        if reply.usage.cached_tokens:
            attributes["gen_ai.usage.cache_read.input_tokens"] = reply.usage.cached_tokens
    return attributes


def of_tool_call(call: ToolCall) -> Attributes:
    """An ``execute_tool`` span at its start."""
    tool, info = call.call.tool, call.call.info
    attributes = {
        **of_job(call.place.spec),
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": info.call_id,
        "stepkeeper.step": call.step,
        "stepkeeper.attempt": info.attempt,
        "stepkeeper.worker": call.place.worker,
        "stepkeeper.epoch": call.place.epoch,
    }
    if tool.description:
        attributes["gen_ai.tool.description"] = tool.description
    return attributes


# --- content, only where it is wanted --------------------------------------------------------


def request_content(call: ModelCall) -> Attributes:
    """What the model is shown."""
    request = call.request
    instructions = [m for m in request.messages if m.get("role") == "system"]
    rest = [m for m in request.messages if m.get("role") != "system"]
    content = {
        "gen_ai.system_instructions": _json([p for m in instructions for p in _parts(m)]),
        "gen_ai.input.messages": _json(map(_message, rest)),
    }
    if request.tools:
        content["gen_ai.tool.definitions"] = _json(
            {"type": "function", **tool.get("function", {})} for tool in request.tools
        )
    return content


def reply_content(reply: ModelReply) -> Attributes:
    """What the model said."""
    message = _message(reply.message) | {"finish_reason": reply.finish_reason or "unknown"}
    return {"gen_ai.output.messages": _json([message])}


def tool_content(call: ToolCall) -> Attributes:
    """What a tool is called with."""
    return {"gen_ai.tool.call.arguments": call.call.arguments.canonical}


def result_content(result: Observation) -> Attributes:
    """What the model reads of it."""
    return {"gen_ai.tool.call.result": result.content}


def as_text(value: Any) -> str:
    """A text as it is, another JSON value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A chat message in the form of the conventions: a role and parts."""
    return {"role": message.get("role", "assistant"), "parts": _parts(message)}


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if message.get("role") == "tool":
        return [
            {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": content}
        ]
    parts: list[dict[str, Any]] = [{"type": "text", "content": content}] if content else []
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        arguments = function.get("arguments")
        parts.append(
            {
                "type": "tool_call",
                "id": call.get("id"),
                "name": function.get("name"),
                "arguments": _loaded(arguments),
            }
        )
    return parts


def _loaded(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except (TypeError, ValueError):
        return arguments


def _json(values: Iterable[Any]) -> str:
    return json.dumps(list(values), ensure_ascii=False, default=str)
