"""A provider at its most particular: every request is checked the way the strictest ones do."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_FIELDS = frozenset({"role", "content", "name", "refusal", "tool_calls", "audio", "function_call"})


class WireError(Exception):
    """The request is refused; ``status`` is the HTTP status, ``code`` the provider's word."""

    def __init__(self, message: str, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Strict:
    """What is refused besides plain mistakes.

    Args:
        null_content: whether a message with tool calls may have ``content: null``.
        empty_content: whether it may have ``content: ""``.
        required_fields: that every assistant message with tool calls must bring back.
        unknown_fields: whether assistant messages may have fields that are not standard.
        references: whether tool schemas may use ``$ref``.
        max_messages: a longer history is ``context_length_exceeded``; None for any length.
    """

    null_content: bool = True
    empty_content: bool = True
    required_fields: Collection[str] = ()
    unknown_fields: bool = True
    references: bool = True
    max_messages: int | None = None

    def check(self, body: Any) -> None:
        """Raise `WireError` for the first thing that is wrong with a chat-completions request."""
        if not isinstance(body, dict) or not body.get("model"):
            raise WireError("you must provide a model parameter")
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise WireError("'messages' must be a list with at least one message")
        self._check_length(messages)
        self._check_tools(body)
        for index, message in enumerate(messages):
            self._check_message(index, message)
        check_pairs(messages)

    def _check_length(self, messages: Sequence[Any]) -> None:
        if self.max_messages is not None and len(messages) > self.max_messages:
            text = f"maximum context length is {self.max_messages} messages, not {len(messages)}"
            raise WireError(text, code="context_length_exceeded")

    def _check_message(self, index: int, message: Any) -> None:
        where = f"messages[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            raise WireError(f"{where}: unknown role {role!r}")
        if role in ("system", "developer") and index > 0:
            raise WireError(f"{where}: a {role} message must be the first one")
        if role == "assistant":
            self._check_assistant(where, message)
        elif not _is_content(message.get("content")):
            raise WireError(f"{where}: content must be text or a list of parts")
        if role == "tool" and not isinstance(message.get("tool_call_id"), str):
            raise WireError(f"{where}: tool_call_id is missing")

    def _check_assistant(self, where: str, message: Mapping[str, Any]) -> None:
        calls = message.get("tool_calls")
        if not calls:
            if not _is_content(message.get("content")):
                raise WireError(f"{where}: an assistant message needs content or tool_calls")
            if calls is not None:
                raise WireError(f"{where}: tool_calls must not be empty")
        elif self._refuses_content(message):
            raise WireError(f"{where}: content {message['content']!r} is not allowed here")
        self._check_fields(where, message)
        for call in calls or ():
            _check_call(where, call)

    def _refuses_content(self, message: Mapping[str, Any]) -> bool:
        if message.get("content", "left out") is None:
            return not self.null_content
        return message.get("content") == "" and not self.empty_content

    def _check_fields(self, where: str, message: Mapping[str, Any]) -> None:
        extra = sorted(message.keys() - _FIELDS)
        if extra and not self.unknown_fields:
            raise WireError(f"{where}: unknown field {extra[0]!r}")
        missing = [f for f in self.required_fields if f not in message]
        if missing and message.get("tool_calls"):
            raise WireError(f"{where}: {missing[0]} must be passed back")

    def _check_tools(self, body: Mapping[str, Any]) -> None:
        tools = body.get("tools")
        if tools is None:
            for name in ("tool_choice", "parallel_tool_calls"):
                if name in body:
                    raise WireError(f"{name} is only allowed when tools are given")
            return
        if not tools:
            raise WireError("tools must not be empty")
        names = [self._check_tool(tool) for tool in tools]
        if len(set(names)) < len(names):
            raise WireError("tool names must be unique")

    def _check_tool(self, tool: Mapping[str, Any]) -> str:
        function = tool.get("function") or {}
        name = function.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise WireError(f"tool name {name!r} does not match {_NAME.pattern}")
        schema = function.get("parameters", {"type": "object", "properties": {}})
        if schema.get("type") != "object":
            raise WireError(f"schema of {name!r} must be of type object")
        for where, part in _parts("parameters", schema):
            self._check_schema_part(name, where, part, strict=bool(function.get("strict")))
        return name

    def _check_schema_part(
        self, name: str, where: str, part: Mapping[str, Any], *, strict: bool
    ) -> None:
        if "$ref" in part and not self.references:
            raise WireError(f"schema of {name!r}: {where} uses $ref")
        if not strict:
            return
        if "default" in part:
            raise WireError(f"strict schema of {name!r}: {where} has a default")
        if part.get("type") != "object" and "properties" not in part:
            return
        if part.get("additionalProperties") is not False:
            raise WireError(f"strict schema of {name!r}: {where} needs additionalProperties false")
        if set(part.get("required", ())) != set(part.get("properties", ())):
            raise WireError(f"strict schema of {name!r}: {where} must require every property")


def check_pairs(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raise `WireError` unless every tool call is answered once, right after its message."""
    open_ids: set[str] = set()
    seen: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                raise WireError(f"messages[{index}]: no open tool call has this id")
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            raise WireError(f"messages[{index}]: tool calls were not answered: {sorted(open_ids)}")
        new = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(new)) < len(new) or seen & set(new):
            raise WireError(f"messages[{index}]: tool call ids must be unique")
        open_ids, seen = set(new), seen | set(new)
    if open_ids:
        raise WireError(f"tool calls were not answered: {sorted(open_ids)}")


def _check_call(where: str, call: Any) -> None:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type") != "function":
        raise WireError(f"{where}: a tool call must be of type function")
    if not isinstance(call.get("id"), str) or not call["id"]:
        raise WireError(f"{where}: a tool call needs an id")
    if not isinstance(function.get("name"), str) or not _NAME.fullmatch(function["name"]):
        raise WireError(f"{where}: name {function.get('name')!r} does not match {_NAME.pattern}")
    if not _is_json_object(function.get("arguments")):
        # As several servers do: their chat template stumbles over it.
        raise WireError(f"{where}: arguments are not a JSON object", status=500)


def _is_json_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def _is_content(content: Any) -> bool:
    return isinstance(content, str | list)


def _parts(where: str, schema: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema inside a schema, itself included."""
    if not isinstance(schema, dict):
        return
    yield where, schema
    for key in ("properties", "$defs", "definitions"):
        for name, part in (schema.get(key) or {}).items():
            yield from _parts(f"{where}.{name}", part)
    for key in ("items", "additionalProperties"):
        yield from _parts(f"{where}.{key}", schema.get(key))
    for key in ("anyOf", "allOf", "oneOf", "prefixItems"):
        for number, part in enumerate(schema.get(key) or ()):
            yield from _parts(f"{where}.{key}[{number}]", part)
