"""Replies that come in pieces: server-sent events read, pieces put together, pieces shown.

A format's collector takes the events of a stream and rebuilds the body that the same server would
have sent in one piece. That body is read like any other, so a reply is the same either way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from worker.models.base import (
    Delta,
    Message,
    Model,
    ModelError,
    ModelReply,
    ModelRequest,
    OnDelta,
    StreamingModel,
)

DONE = "[DONE]"
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
_FIELD = re.compile(r"([^:]*):? ?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SentEvent:
    """One event of a stream; without any data it is only a sign of life."""

    name: str
    data: str


class Collector(Protocol):
    """Rebuilds a whole body out of the events of one stream."""

    def take(self, name: str, data: dict[str, Any]) -> Iterator[Delta]:
        """Take one event; gives what there is to show of it."""
        ...  # pragma: no cover

    @property
    def complete(self) -> bool:
        """Whether the reply has been said to be over."""
        ...  # pragma: no cover

    def body(self) -> dict[str, Any]:
        """The body as it would have come in one piece."""
        ...  # pragma: no cover


def sent_events(pieces: Iterable[bytes]) -> Iterator[SentEvent]:
    """The events in the body of a ``text/event-stream``, cut anywhere into pieces.

    Comments come out as events without data. An event that the end of the stream cuts off is
    dropped, as the format wants it.
    """
    name = ""
    data: list[str] = []
    for line in _lines(pieces):
        if not line:
            if data:
                yield SentEvent(name, "\n".join(data))
            name, data = "", []
            continue
        found = _FIELD.fullmatch(line)
        assert found is not None
        match found[1]:
            case "":
                yield SentEvent("", "")
            case "data":
                data.append(found[2])
            case "event":
                name = found[2]


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Whole lines without their ends; one that the stream's end cuts off is dropped."""
    rest = b""
    for piece in pieces:
        *lines, rest = _LINE_END.split(rest + piece)
        for line in lines:
            yield line.decode("utf-8", "replace")
    if rest.endswith(b"\r"):
        yield rest[:-1].decode("utf-8", "replace")


def read_data(event: SentEvent) -> dict[str, Any]:
    """What an event says.

    Raises:
        ModelError: with fate ``retry`` when that is no JSON object.
    """
    try:
        value = json.loads(event.data)
    except (ValueError, RecursionError) as error:
        raise _malformed(event, str(error)) from error
    if not isinstance(value, dict):
        raise _malformed(event, "no object")
    return value


def _malformed(event: SentEvent, why: str) -> ModelError:
    text = f"an event of the stream is not JSON: {why}; it begins with {event.data[:80]!r}"
    return ModelError(text, "retry", code="malformed_answer")


def cut_off() -> ModelError:
    """The error for a stream that ended before the reply did."""
    text = "the stream ended before the reply did: no finish reason has come"
    return ModelError(text, "retry", code="stream_cut")


def stream_or_show(model: Model, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
    """A model's reply in pieces, in one piece from a model that cannot stream.

    Raises:
        ModelError: the model's.
        StreamStopped: what ``on_delta`` raised.
    """
    if isinstance(model, StreamingModel):
        return model.stream(request, on_delta)
    reply = model.reply(request)
    show(reply.message, on_delta)
    return reply


def show(message: Message, on_delta: OnDelta) -> None:
    """Show a reply that came in one piece."""
    for kind, field in (("text", "content"), ("refusal", "refusal")):
        if isinstance(message.get(field), str) and message[field]:
            on_delta(Delta(kind, message[field]))  # type: ignore[arg-type]  # one of two kinds
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") or {}
        name, arguments = as_text(function.get("name")), as_text(function.get("arguments"))
        on_delta(Delta("call", arguments, index, name))


def as_text(value: Any) -> str:
    """A piece as text; nothing is an empty one."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_WHOLE = frozenset({"id", "type", "role", "name", "format"})
"""Fields that every piece repeats, or only one has: never put together of pieces."""


def merged(old: Any, new: Any, field: str = "") -> Any:
    """Two pieces of one value: texts are joined, objects and lists merged, the rest replaced.

    Args:
        field: under which they stand.
    """
    if old is None or new is None:
        return old if new is None else new
    if isinstance(old, str) and isinstance(new, str):
        return (new or old) if field in _WHOLE else old + new
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{name: merged(old.get(name), value, name) for name, value in new.items()}}
    if isinstance(old, list) and isinstance(new, list):
        return _merged_lists(old, new)
    return new


def _merged_lists(old: list[Any], new: list[Any]) -> list[Any]:
    """Items that name their ``index`` are pieces of the item with the same one."""
    items = list(old)
    for piece in new:
        at = _place(items, piece)
        if at is None:
            items.append(piece)
        else:
            items[at] = merged(items[at], piece)
    return items


def _place(items: list[Any], piece: Any) -> int | None:
    if not isinstance(piece, dict) or "index" not in piece:
        return None
    same = (
        n for n, i in enumerate(items) if isinstance(i, dict) and i.get("index") == piece["index"]
    )
    return next(same, None)
