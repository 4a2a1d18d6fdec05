"""A stream of the Responses API: its last event holds the whole response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worker.models.base import Delta
from worker.models.streaming import as_text

_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})


class ResponsesCollector:
    """Takes the events of one response."""

    def __init__(self) -> None:
        self._response: dict[str, Any] | None = None
        self._items: dict[Any, dict[str, Any]] = {}
        self._calls: dict[Any, int] = {}

    def take(self, name: str, data: dict[str, Any]) -> Iterator[Delta]:
        """Take one event; gives what there is to show of it."""
        kind, place = str(data.get("type") or name), data.get("output_index")
        piece = as_text(data.get("delta"))
        match kind:
            case "response.output_text.delta":
                yield Delta("text", piece)
            case "response.refusal.delta":
                yield Delta("refusal", piece)
            case "response.function_call_arguments.delta":
                yield Delta("call", piece, self._call(place))
            case "response.output_item.added" if _is_call(data):
                yield Delta("call", "", self._call(place), as_text(data["item"].get("name")))
            case "response.output_item.done" if isinstance(data.get("item"), dict):
                self._items[place] = data["item"]
            case _ if kind in _LAST and isinstance(data.get("response"), dict):
                self._response = data["response"]

    def _call(self, place: Any) -> int:
        """The number of the call that stands at this place of the output."""
        return self._calls.setdefault(place, len(self._calls))

    @property
    def complete(self) -> bool:
        """Whether the whole response has come."""
        return self._response is not None

    def body(self) -> dict[str, Any]:
        """The response; some servers send its items only one by one."""
        response = self._response or {}
        return {**response, "output": response.get("output") or list(self._items.values())}


def _is_call(data: dict[str, Any]) -> bool:
    item = data.get("item")
    return isinstance(item, dict) and item.get("type") == "function_call"
