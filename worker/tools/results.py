"""From what a tool returned to what a model reads.

Every type that has an obvious written form gets it; anything else is an error that names the
type, because ``<object at 0x7f...>`` helps no model. The written form is plain JSON or text: it
can always be stored, sent, and encoded as UTF-8.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import singledispatch
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from worker.texts import Texts
from worker.tools.arguments import clean_surrogates

Cut = Literal["head", "head_tail"]

_NUL = "\u2400"  # The printable symbol for NUL: most stores and providers refuse the real one.
_PICTURE = re.compile(r"data:[\w.+-]+/[\w.+-]+(;[\w=.+-]+)*;base64,[A-Za-z0-9+/=]{64}")
_PARTS_WITH_DATA = frozenset({"base64", "image", "audio", "input_audio"})
_WHOLE = 1e15
_MARGIN = 4096


class Unwritable(TypeError):
    """A value without a written form; the text names its type, for the model."""


@dataclass(slots=True)
class Written:
    """A result as a text for the model, and as a JSON value."""

    content: str
    value: Any


def write(result: Any, texts: Texts) -> Written:
    """The written form of a tool's result. Its content is never empty.

    Raises:
        Unwritable: the result, or something in it, has no written form.
    """
    try:
        value = to_json(result)
    except RecursionError:
        raise Unwritable(f"{_name(type(result))} nested too deeply") from None
    return Written(_content(value, texts), value)


def _content(value: Any, texts: Texts) -> str:
    if isinstance(value, str):
        return value if value.strip() else texts.empty_text()
    if value is None:
        return texts.no_result()
    if isinstance(value, (list, dict)) and not value:
        return texts.empty_collection("{}" if isinstance(value, dict) else "[]")
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))  # What a person would write: 210, not 210.0.
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def clean(text: str) -> str:
    """The text without NUL bytes and lone surrogates, which cannot be stored everywhere."""
    return clean_surrogates(text.replace("\x00", _NUL) if "\x00" in text else text)


@singledispatch
def to_json(value: Any) -> Any:
    """A copy of ``value`` made of JSON types only.

    Raises:
        Unwritable: it has no written form.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    raise Unwritable(_name(type(value)))


def _name(kind: type) -> str:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


@to_json.register(type(None))
@to_json.register(bool)
def _same(value: Any) -> Any:
    return value


@to_json.register
def _(value: int) -> int:
    return int(value)


@to_json.register
def _(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(value)


@to_json.register
def _(value: str) -> str:
    if _PICTURE.match(value):
        raise Unwritable("a file as a data URL (return a text about it, or where it is stored)")
    return clean(str(value))


@to_json.register(bytes)
@to_json.register(bytearray)
@to_json.register(memoryview)
def _refuse_bytes(value: Any) -> Any:
    kind, size = type(value).__name__, len(value)
    raise Unwritable(f"{kind} ({size} bytes; return a decoded text, or where they are stored)")


@to_json.register
def _(value: Enum) -> Any:
    return to_json(value.value)


@to_json.register
def _(value: BaseModel) -> Any:
    try:
        return to_json(value.model_dump(mode="json"))
    except (PydanticSerializationError, ValueError) as error:
        raise Unwritable(f"{_name(type(value))} ({error})") from None


@to_json.register(date)
@to_json.register(datetime)
@to_json.register(time)
def _iso(value: Any) -> str:
    return str(value.isoformat())


@to_json.register(Decimal)
@to_json.register(Fraction)
@to_json.register(PurePath)
@to_json.register(UUID)
@to_json.register(IPv4Address)
@to_json.register(IPv6Address)
def _as_text(value: Any) -> str:
    return clean(str(value))


@to_json.register
def _(value: timedelta) -> str:
    return str(to_jsonable_python(value))


@to_json.register(list)
@to_json.register(deque)
@to_json.register(range)
def _sequence(value: Iterable[Any]) -> list[Any]:
    return [to_json(item) for item in value]


@to_json.register
def _(value: tuple) -> Any:  # type: ignore[type-arg]
    as_dict: Callable[[], dict[str, Any]] | None = getattr(value, "_asdict", None)
    return to_json(as_dict()) if as_dict else [to_json(item) for item in value]


@to_json.register(set)
@to_json.register(frozenset)
def _sorted(value: Iterable[Any]) -> list[Any]:
    written = [to_json(item) for item in value]
    # By their JSON text where they do not compare: a set has no order of its own, and an
    # observation that changes from run to run would look like progress.
    try:
        return sorted(written)
    except TypeError:
        return sorted(written, key=lambda item: json.dumps(item, sort_keys=True))


@to_json.register
def _(value: dict) -> dict[str, Any]:  # type: ignore[type-arg]
    _refuse_part(value)
    written: dict[str, Any] = {}
    for key, item in value.items():
        name = _key(key)
        if name in written:
            raise Unwritable(f"dict with two keys that are both written {name!r}")
        written[name] = to_json(item)
    return written


def _refuse_part(value: dict[Any, Any]) -> None:
    """Refuse pictures and sounds in the forms that message parts have: no model reads base64."""
    kind = value.get("type")
    if isinstance(kind, str) and kind in _PARTS_WITH_DATA and ("data" in value or kind in value):
        raise Unwritable(f"a message part of type {kind} (return a text about it)")


def _key(key: Any) -> str:
    if isinstance(key, str) and not isinstance(key, Enum):
        return clean(key)
    if isinstance(key, (tuple, frozenset, bytes)):
        raise Unwritable(f"dict with keys of type {type(key).__name__}")
    value = to_json(key)
    if isinstance(value, (list, dict)):
        raise Unwritable(f"dict with keys of type {type(key).__name__}")
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(slots=True)
class Fit:
    """Cuts texts to a length.

    Attributes:
        limit: how many characters to keep, at least 1.
        cut: ``"head"`` keeps the first characters; ``"head_tail"`` two thirds from the start and
            the rest from the end, with the notice between them.
        longest_secret: in characters; secrets are hidden before the cut, so that none is left
            half visible at it.
    """

    limit: int
    cut: Cut = "head"
    longest_secret: int = 0

    def apply(self, text: str, hide: Callable[[str], str], texts: Texts) -> str:
        """The text without secrets, and with a notice of its full length if it had to be cut."""
        if len(text) <= self.limit:
            return hide(text)
        notice = texts.truncated(len(text))
        margin = max(_MARGIN, 2 * self.longest_secret)
        tail = self.limit // 3 if self.cut == "head_tail" else 0
        head = self.limit - tail
        start = hide(text[: head + margin])[:head]
        if not tail:
            return f"{start}\n{notice}"
        return f"{start}\n{notice}\n{hide(text[-tail - margin :])[-tail:]}"
