"""The messages that trace records name by index, read only as far as they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of a reply, as it was stored; ``arguments`` is JSON text."""

    id: str
    tool: str
    arguments: str


class TranscriptReader:
    """A job's transcript.

    Args:
        fetch: gives the messages from an index to the end, such as a store's ``messages``.
    """

    def __init__(self, fetch: Callable[[int], list[Message]]) -> None:
        self._fetch = fetch
        self._messages: list[Message] = []

    def at(self, index: int) -> Message | None:
        """The message at an index, ``None`` if there is none (any more)."""
        if index >= len(self._messages):
            self._read_on()
        return self._messages[index] if 0 <= index < len(self._messages) else None

    def calls_at(self, index: int) -> list[Call]:
        """The tool calls of the reply at an index."""
        return [_call(entry) for entry in (self.at(index) or {}).get("tool_calls") or ()]

    def call_answered_at(self, index: int) -> Call | None:
        """The call that the tool message at an index answers."""
        call_id = (self.at(index) or {}).get("tool_call_id")
        for earlier in range(index - 1, -1, -1):
            for call in self.calls_at(earlier):
                if call.id == call_id:
                    return call
        return None

    def answers_after(self, index: int) -> Iterator[int]:
        """Indexes of the tool messages with which the transcript ends, behind ``index``."""
        self._read_on()
        first = len(self._messages)
        while first - 1 > index and self._messages[first - 1].get("role") == "tool":
            first -= 1
        yield from range(first, len(self._messages))

    def _read_on(self) -> None:
        self._messages.extend(self._fetch(len(self._messages)))


def text_of(message: Message | None) -> str:
    """What a message says; parts that are no text are left out."""
    content = (message or {}).get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _call(entry: Message) -> Call:
    function = entry.get("function") or {}
    return Call(
        str(entry.get("id")), str(function.get("name")), str(function.get("arguments") or "{}")
    )
