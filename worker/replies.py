"""Reading a model's message: what is stored of it, and what is run.

Models and the servers in front of them send odd things. This module turns any assistant message
into one that every provider takes back, and into calls that are safe to look at. It executes
nothing and depends on nothing but its arguments: the same message after the same history always
gives the same result, ids included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from worker.strict_json import strict_json
from worker.unexecuted import looks_like_a_call

Message = dict[str, Any]

KNOWN_FINISH_REASONS = frozenset({"stop", "tool_calls", "length", "content_filter"})
_CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS", "model_length"})
_EXCERPT = 200
"""Characters of something odd that the notes keep."""


@dataclass(slots=True)
class Call:
    """One tool call.

    ``name`` is the registered tool it means, or else what the model wrote (`raw_name`).
    ``arguments`` is the JSON text of an object, as stored; for a call with a ``problem`` it is what
    the model wrote, for the error text only: never run such a call.
    """

    id: str
    name: str
    raw_name: str
    arguments: str
    problem: Literal["truncated", "malformed"] | None = None


@dataclass(slots=True)
class Turn:
    """A reply, read.

    ``message`` is what to store and send back. ``text`` is the plan beside calls, or the answer.
    ``text_call`` says that the text is a tool call written as text, which nobody ran. ``raw``
    notes what was changed or unknown, for the trace; it is empty for an ordinary reply.
    """

    message: Message
    calls: tuple[Call, ...] = ()
    text: str = ""
    refusal: str | None = None
    text_call: bool = False
    raw: dict[str, Any] = field(default_factory=dict)


def read_reply(
    message: Message,
    *,
    history: Sequence[Message],
    tool_names: Collection[str],
    finish_reason: str | None = None,
) -> Turn:
    """Read a message behind a history; see ``read_turn``.

    Args:
        history: the messages before it.
    """
    return read_turn(
        message,
        taken={call_id for call_id in _ids_in(history) if call_id},
        step=sum(1 for m in history if m.get("role") == "assistant"),
        tool_names=tool_names,
        finish_reason=finish_reason,
    )


def read_turn(
    message: Message,
    *,
    taken: Collection[str],
    step: int,
    tool_names: Collection[str],
    finish_reason: str | None = None,
) -> Turn:
    """Bring an assistant message into the form that is stored, and take its calls out of it.

    Args:
        message: as the model sent it; not changed.
        taken: call ids that stand in the history already.
        step: how many assistant messages the history holds.
        tool_names: of the agent's tools.
        finish_reason: the provider's; only the length limit matters, calls decide the rest.
    """
    notes: dict[str, Any] = {}
    if finish_reason not in KNOWN_FINISH_REASONS:
        notes["finish_reason"] = finish_reason
    ids = _Ids(taken, step)
    calls, stored = _read_calls(message, ids, tool_names, finish_reason in _CUT_OFF, notes)
    text = _text_of(message.get("content"))
    return Turn(
        message=_stored_message(message, stored),
        calls=tuple(calls),
        text=text,
        refusal=None if calls else _refusal_of(message, text, finish_reason),
        text_call=not calls and looks_like_a_call(text, tool_names),
        raw=notes,
    )


def resolve_name(raw: str, tool_names: Collection[str]) -> str | None:
    """The one registered name that the model can have meant, None if there is none or several."""
    if raw in tool_names:
        return raw
    wanted = _plain(raw)
    found = [name for name in tool_names if _plain(name) == wanted]
    return found[0] if len(found) == 1 else None


def _plain(name: str) -> str:
    """A name without the noise that models add: channel marks, prefix, case, kind of dash."""
    name = name.split("<|", 1)[0].strip().removeprefix("functions.")
    return re.sub(r"[-\s]", "_", name).casefold()


def _read_calls(
    message: Message,
    ids: _Ids,
    tool_names: Collection[str],
    cut: bool,
    notes: dict[str, Any],
) -> tuple[list[Call], list[dict[str, Any]]]:
    """The calls of a message, and the same calls as they are stored."""
    raw_calls = message.get("tool_calls")
    entries = [c for c in raw_calls if isinstance(c, dict)] if isinstance(raw_calls, list) else []
    if not entries:
        return [], []
    calls, stored = [], []
    for index, entry in enumerate(entries):
        call_id = ids.take(entry.get("id"), index)
        call = _read_call(entry, call_id, tool_names, cut and index == len(entries) - 1)
        calls.append(call)
        stored.append(_stored_call(entry, call, tool_names))
        _note(notes, entry, call, stored[-1])
    return calls, stored


def _read_call(entry: dict[str, Any], call_id: str, tool_names: Collection[str], cut: bool) -> Call:
    """Read one entry of ``tool_calls``; ``cut`` when the length limit ended it."""
    function = entry.get("function")
    function = function if isinstance(function, dict) else {}
    raw_name = function.get("name")
    raw_name = raw_name if isinstance(raw_name, str) else ""
    name = resolve_name(raw_name, tool_names) or raw_name
    arguments = _arguments_text(function.get("arguments"))
    if cut and not _is_object(arguments):
        return Call(call_id, name, raw_name, arguments, "truncated")
    arguments = arguments or "{}"
    return Call(call_id, name, raw_name, arguments, None if _is_object(arguments) else "malformed")


def _arguments_text(value: Any) -> str:
    """The arguments as text; some servers send the object itself, some nothing at all."""
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_object(text: str) -> bool:
    """Whether the text is strict JSON for an object, which every provider takes back."""
    try:
        return isinstance(strict_json(text), dict)
    except (ValueError, RecursionError):
        return False


class _Ids:
    """Gives every call an id that is unique in the history, the model's own where it is."""

    def __init__(self, taken: Collection[str], step: int) -> None:
        self._history = taken
        self._new: set[str] = set()
        self._step = step

    def _is_taken(self, call_id: str) -> bool:
        return call_id in self._history or call_id in self._new

    def take(self, wanted: Any, index: int) -> str:
        """The wanted id, or a made one if it is missing, empty or taken already."""
        usable = isinstance(wanted, str) and wanted.strip() and not self._is_taken(wanted)
        made = (call_id for call_id in self._made(index) if not self._is_taken(call_id))
        found = str(wanted) if usable else next(made)
        self._new.add(found)
        return found

    def _made(self, index: int) -> Iterator[str]:
        """Nine letters and digits: the strictest form that any provider asks for."""
        while True:
            yield f"c{self._step % 100_000:05d}{index % 1000:03d}"
            index += 1
            if index % 1000 == 0:
                self._step += 1


def _ids_in(history: Sequence[Message]) -> Iterator[str | None]:
    for message in history:
        if message.get("role") == "assistant":
            for call in message.get("tool_calls") or ():
                yield call.get("id")


def _stored_call(entry: dict[str, Any], call: Call, tool_names: Collection[str]) -> dict[str, Any]:
    """The call as it goes into the history: valid everywhere, fields that we do not know kept."""
    function = entry.get("function")
    kept = function if isinstance(function, dict) else {}
    name = call.name if call.name in tool_names else _harmless_name(call.raw_name, tool_names)
    arguments = "{}" if call.problem else call.arguments
    return {
        **entry,
        "id": call.id,
        "type": "function",
        "function": {**kept, "name": name, "arguments": arguments},
    }


def _harmless_name(raw: str, tool_names: Collection[str]) -> str:
    """A name that providers accept and that means no registered tool."""
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", raw)[:48] or "unknown"
    return f"unknown_{name}" if resolve_name(name, tool_names) else name


def _note(notes: dict[str, Any], entry: dict[str, Any], call: Call, stored: dict[str, Any]) -> None:
    """Write down, under the id that is stored, what of this call was changed."""
    if call.raw_name != stored["function"]["name"]:
        notes.setdefault("names", {})[call.id] = call.raw_name[:_EXCERPT]
    if entry.get("id") != call.id:
        notes.setdefault("ids", {})[call.id] = entry.get("id")
    if call.problem:
        notes.setdefault("problems", {})[call.id] = call.problem
        notes.setdefault("arguments", {})[call.id] = call.arguments[:_EXCERPT]


def _stored_message(message: Message, calls: list[dict[str, Any]]) -> Message:
    """The message without its null fields; ``content`` always stands, null only beside calls."""
    stored = {k: v for k, v in message.items() if v is not None and k != "tool_calls"}
    content = message.get("content")
    usable = isinstance(content, str) or (isinstance(content, list) and content)
    stored["role"] = "assistant"
    stored["content"] = content if usable else None if calls else ""
    if calls:
        stored["tool_calls"] = calls
    return stored


def _text_of(content: Any) -> str:
    """The text of a message whose content is a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (p.get("text") for p in content if isinstance(p, dict) and p.get("type") == "text")
    return "".join(p for p in parts if isinstance(p, str))


def _refusal_of(message: Message, text: str, finish_reason: str | None) -> str | None:
    """The words of a refusal, None if the model did not refuse."""
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        return refusal
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "refusal":
            return str(part.get("refusal") or "refused")
    if finish_reason == "content_filter" and not text.strip():
        return "the provider's content filter stopped the reply"
    return None
