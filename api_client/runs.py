"""The compact forms in which the hot path writes: names in code, letters in Redis.

A commit is written to the append-only file in full, so every byte of it is paid for at each step.
The run state is one JSON object with short keys, behind the number of its commit
(``12 {"s":5,…}``); the two most frequent trace records are JSON arrays of numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError, to_json

Written = TypeVar("Written", str, bytes, str | bytes)

RUN_KEYS = {
    "version": "w",
    "steps": "s",
    "active_ms": "a",
    "usage": "u",
    "calls": "c",
    "repeats": "r",
    "granted": "g",
    "failures": "f",
    "bad_turns": "b",
    "problems": "p",
    "approved": "ok",
    "started": "st",
    "room": "rm",
    "compacted": "cp",
    "summary": "sm",
    "children": "ch",
    "told": "to",
    "pauses": "ps",
    "stored": "by",
}
"""Key of each field of a run state; a new field needs a new key, and keeps it for ever."""

USAGE = ("prompt_tokens", "completion_tokens", "cached_tokens", "estimated", "cost_micros")
"""The order in which an account is written; zeros at its end are left out."""

_NAMES = {key: name for name, key in RUN_KEYS.items()}

_FREQUENT = {
    "reply": ("r", ("i", "s", "ms", "in", "out")),
    "observation": ("o", ("i", "s", "ms")),
}
_KINDS = {short: (kind, names) for kind, (short, names) in _FREQUENT.items()}


def write_run(state: Mapping[str, Any]) -> str:
    """A run state as JSON in ASCII; ``usage`` is a sequence in the order of ``USAGE``."""
    return write_short({RUN_KEYS[name]: value for name, value in state.items()})


def write_short(state: Mapping[str, Any]) -> str:
    """The same, where the fields have their keys already."""
    try:
        text = to_json(state)
    except PydanticSerializationError:  # the quick way refuses half of a surrogate pair
        return json.dumps(state, separators=(",", ":"))
    return text.decode() if text.isascii() else json.dumps(state, separators=(",", ":"))


def read_run(text: str) -> dict[str, Any]:
    """The fields of a stored run state by their names; unknown keys are passed over."""
    found = json.loads(text)
    return {_NAMES[key]: value for key, value in found.items() if key in _NAMES}


def read_usage(values: list[int]) -> dict[str, Any]:
    """An account by name; what was left out is 0."""
    return dict(zip(USAGE, [*values, *[0] * (len(USAGE) - len(values))], strict=True))


def number(seq: int, run: str) -> str:
    """The record's ``run`` field: the number of the commit, and the state."""
    return f"{seq} {run}"


def numbered(field: str | None) -> tuple[int, str | None]:
    """Commit number and state of a record's ``run`` field; 0 and ``None`` before the first."""
    if field is None:
        return 0, None
    seq, _, run = field.partition(" ")
    return int(seq), run


def write_event(
    kind: str, data: Mapping[str, Any], dumps: Callable[[Any], Written]
) -> tuple[str, Written]:
    """Name and value of the one field of a trace record."""
    if kind not in _FREQUENT:
        return kind, dumps(data)
    short, names = _FREQUENT[kind]
    values: list[Any] = [data.get(name) for name in names]
    for value in values:
        if type(value) is not int:
            return kind, dumps(data)
    if len(data) > len(names):
        values.append({name: value for name, value in data.items() if name not in names})
    return short, dumps(values)


def read_event(name: str, value: str) -> tuple[str, dict[str, Any]]:
    """Kind and data of a trace record from the name and value of its field."""
    data = json.loads(value)
    if name not in _KINDS or not isinstance(data, list):
        return name, data
    kind, names = _KINDS[name]
    rest = data[len(names)] if len(data) > len(names) else {}
    return kind, {**dict(zip(names, data, strict=False)), **rest}
