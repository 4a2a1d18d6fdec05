"""The chat-completions wire format: what is sent, and what comes back. No SDK, no socket."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from worker.models.base import Message, ModelReply, ModelRequest, Usage
from worker.models.blocks import CONTENT_BLOCKS, RESPONSE_ITEMS
from worker.models.classify import failure_from_body, judge
from worker.models.json_body import count, empty_response, from_json

EmptyContent = Literal["null", "empty", "omit"]

_STANDARD_FIELDS = frozenset(
    {"role", "content", "name", "refusal", "tool_calls", "function_call", "audio"}
)
# Ours, for the other formats: what came through them goes back through them only.
_OTHER_FORMATS = frozenset({RESPONSE_ITEMS, CONTENT_BLOCKS})


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server is particular about in the assistant messages it gets back.

    Args:
        empty_content: how to write that a message with tool calls has no text.
        drop_fields: fields of assistant messages that are not sent; True for all that are not
            part of the standard format.
    """

    empty_content: EmptyContent = "null"
    drop_fields: bool | Collection[str] = False

    def write(self, messages: Sequence[Message]) -> list[Message]:
        """The messages as this server wants them; those that need no change are not copied."""
        return [self._assistant(m) if m.get("role") == "assistant" else m for m in messages]

    def _assistant(self, message: Message) -> Message:
        message = self._without_fields(message)
        if message.get("content"):
            return message
        written = {k: v for k, v in message.items() if k != "content"}
        if not message.get("tool_calls"):
            return {**written, "content": ""}
        if self.empty_content == "omit":
            return written
        return {**written, "content": None if self.empty_content == "null" else ""}

    def _without_fields(self, message: Message) -> Message:
        if not self.drop_fields and _OTHER_FORMATS.isdisjoint(message):
            return message
        kept = {k: v for k, v in message.items() if not self._drops(k)}
        if self.drop_fields is True and message.get("tool_calls"):
            kept["tool_calls"] = [_standard_call(call) for call in message["tool_calls"]]
        return kept

    def _drops(self, name: str) -> bool:
        if name in _OTHER_FORMATS:
            return True
        if isinstance(self.drop_fields, bool):
            return self.drop_fields and name not in _STANDARD_FIELDS
        return name in self.drop_fields


def _standard_call(call: dict[str, Any]) -> dict[str, Any]:
    function = {k: call["function"][k] for k in ("name", "arguments")}
    return {"id": call["id"], "type": "function", "function": function}


def write_request(
    request: ModelRequest, model: str, dialect: Dialect, extra: dict[str, Any]
) -> dict[str, Any]:
    """The body of a request. What concerns tools is sent only where there are tools."""
    body: dict[str, Any] = {"model": model, "messages": dialect.write(request.messages)}
    if request.tools:
        body["tools"] = list(request.tools)
        if request.tool_choice is not None:
            body["tool_choice"] = request.tool_choice
        if request.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = request.parallel_tool_calls
    return {**body, **extra}


def read_completion(
    raw: bytes, *, retry_after: float | None = None, secrets: Collection[str] = ()
) -> ModelReply:
    """The reply in a body that came with status 200.

    Raises:
        ModelError: when the body is no completion, holds an error instead, or an empty reply.
    """
    body = from_json(raw)
    choice = _choice_of(body)
    error = _error_in(body, choice)
    if error is not None:
        raise judge(failure_from_body(error, retry_after=retry_after), secrets=secrets)
    message = choice.get("message")
    reason = choice.get("finish_reason")
    if not isinstance(message, dict) or _says_nothing(message, reason):
        raise empty_response()
    return ModelReply(
        message={**_without_nulls(message), "role": "assistant"},
        usage=read_usage(body.get("usage")),
        finish_reason=None if reason is None else str(reason),
        model=str(body.get("model") or ""),
    )


def _choice_of(body: Any) -> dict[str, Any]:
    """The first choice, an empty one if there is none."""
    choices = body.get("choices") if isinstance(body, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _error_in(body: Any, choice: dict[str, Any]) -> Any:
    """What stands under ``error`` although the status was 200, None if nothing does."""
    if choice.get("error"):
        return choice["error"]
    return body["error"] if isinstance(body, dict) and body.get("error") and not choice else None


def _says_nothing(message: Message, finish_reason: Any) -> bool:
    """Whether the message is no answer at all, and the provider does not say why either."""
    if finish_reason in ("length", "content_filter"):
        return False
    return not any(message.get(k) for k in ("content", "tool_calls", "refusal", "audio"))


def _without_nulls(message: Message) -> Message:
    """The fields that say something; ``content`` stays, since its absence means another thing."""
    return {k: v for k, v in message.items() if v is not None or k == "content"}


def read_usage(usage: Any) -> Usage | None:
    """The provider's count, None unless both numbers are there."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    if cached is None:
        cached = usage.get("prompt_cache_hit_tokens")
    return Usage(prompt, completion, count(cached) or 0)
