"""A stream of chat completions, put together again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worker.models.base import Delta
from worker.models.blocks import plain_text
from worker.models.streaming import as_text, merged

_SHOWN = {"content": "text", "refusal": "refusal"}


class ChatCollector:
    """Takes the chunks of one completion.

    Servers differ in how they number calls: some leave ``index`` out, some give every call the
    same one. So a piece also begins a new call when it brings an ``id`` of its own.
    """

    def __init__(self) -> None:
        self._body: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._slots: dict[Any, int] = {}

    def take(self, name: str, data: dict[str, Any]) -> Iterator[Delta]:  # noqa: ARG002
        """Take one chunk; gives what there is to show of it."""
        for field in ("model", "usage"):
            if data.get(field):
                self._body[field] = data[field]
        choices = data.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or choice.get("index"):
            return
        self._choice.update({k: choice[k] for k in ("finish_reason", "error") if choice.get(k)})
        delta = choice.get("delta")
        if not delta and not self._message and not self._calls:
            delta = choice.get("message")  # a server that sends everything at once
        if isinstance(delta, dict):
            yield from self._add(delta)

    def _add(self, delta: dict[str, Any]) -> Iterator[Delta]:
        for field, value in delta.items():
            if field == "tool_calls":
                continue
            self._message[field] = merged(self._message.get(field), value, field)
            piece = plain_text(value)
            if field in _SHOWN and piece:
                yield Delta(_SHOWN[field], piece)  # type: ignore[arg-type]  # one of two kinds
        for piece in delta.get("tool_calls") or ():
            if isinstance(piece, dict):
                yield self._add_call(piece)

    def _add_call(self, piece: dict[str, Any]) -> Delta:
        at = self._place(piece)
        if at == len(self._calls):
            self._calls.append({})
        before = self._calls[at]
        known = (before.get("function") or {}).get("name")
        fields = {k: v for k, v in piece.items() if k != "index"}
        self._calls[at] = merged(before, fields)
        function = piece.get("function") or {}
        name = "" if known else as_text(function.get("name"))
        return Delta("call", as_text(function.get("arguments")), at, name)

    def _place(self, piece: dict[str, Any]) -> int:
        """Which call this is a piece of; their number for a new one."""
        index, call_id = piece.get("index"), piece.get("id")
        at = self._slots.get(index)
        if index is None:
            at = self._slots.get(call_id) if call_id else len(self._calls) - 1
        if at is None or at < 0 or self._is_another(at, call_id):
            at = len(self._calls)
        for key in (index, call_id or None):
            if key is not None:
                self._slots[key] = at
        return at

    def _is_another(self, at: int, call_id: Any) -> bool:
        known = self._calls[at].get("id")
        return bool(call_id) and bool(known) and known != call_id

    @property
    def complete(self) -> bool:
        """Whether there is a finish reason, or an error in its place."""
        return bool(self._choice)

    def body(self) -> dict[str, Any]:
        """The completion."""
        message = {"role": "assistant", "content": None, **self._message}
        if self._calls:
            message["tool_calls"] = self._calls
        if self._calls or message.get("refusal"):
            message["content"] = message["content"] or None
        if message.get("refusal") == "":
            del message["refusal"]
        return {**self._body, "choices": [{**self._choice, "message": message}]}
