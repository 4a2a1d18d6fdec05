"""A stream of the Messages API, put together again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from worker.models.base import ALIVE, Delta
from worker.models.streaming import as_text

_JOINED = frozenset({"text", "thinking", "signature"})


class MessagesCollector:
    """Takes the events of one message."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[Any, dict[str, Any]] = {}
        self._inputs: dict[Any, str] = {}
        self._calls: dict[Any, int] = {}

    def take(self, name: str, data: dict[str, Any]) -> Iterator[Delta]:
        """Take one event; gives what there is to show of it."""
        match str(data.get("type") or name):
            case "message_start":
                self._message = dict(data.get("message") or {})
            case "content_block_start":
                yield from self._start(data.get("index"), dict(data.get("content_block") or {}))
            case "content_block_delta":
                yield from self._add(data.get("index"), data.get("delta") or {})
            case "message_delta":
                self._message.update(data.get("delta") or {})
                usage = {**(self._message.get("usage") or {}), **_counts(data.get("usage"))}
                self._message["usage"] = usage
            case "ping":
                yield ALIVE

    def _start(self, index: Any, block: dict[str, Any]) -> Iterator[Delta]:
        self._blocks[index] = block
        if block.get("type") == "tool_use":
            self._calls[index], self._inputs[index] = len(self._calls), ""
            yield Delta("call", "", self._calls[index], as_text(block.get("name")))
        elif block.get("text"):
            yield Delta("text", as_text(block["text"]))

    def _add(self, index: Any, delta: dict[str, Any]) -> Iterator[Delta]:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        if delta.get("type") == "input_json_delta":
            piece = as_text(delta.get("partial_json"))
            self._inputs[index] = self._inputs.get(index, "") + piece
            yield Delta("call", piece, self._calls.setdefault(index, len(self._calls)))
            return
        for field in _JOINED & delta.keys():
            block[field] = as_text(block.get(field)) + as_text(delta[field])
        if "citation" in delta:
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        if delta.get("text"):
            yield Delta("text", as_text(delta["text"]))

    @property
    def complete(self) -> bool:
        """Whether there is a reason why it stopped."""
        return bool(self._message.get("stop_reason"))

    def body(self) -> dict[str, Any]:
        """The message."""
        blocks = [self._whole(index, block) for index, block in self._blocks.items()]
        return {**self._message, "content": blocks}

    def _whole(self, index: Any, block: dict[str, Any]) -> dict[str, Any]:
        """A block; the arguments of a call are read, or left as the text that they came as."""
        text = self._inputs.get(index)
        if not text:
            return block
        try:
            return {**block, "input": json.loads(text)}
        except (ValueError, RecursionError):
            return {**block, "input": text}


def _counts(usage: Any) -> dict[str, Any]:
    """The numbers that the last count has; what it leaves open was said at the beginning."""
    given = usage if isinstance(usage, dict) else {}
    return {name: value for name, value in given.items() if value is not None}
