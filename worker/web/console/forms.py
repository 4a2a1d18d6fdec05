"""Fields out of a JSON schema, and JSON values out of what was typed into them.

What a schema says in other ways than these becomes a field for JSON: texts, numbers, truth,
choices, dates, objects of such. Pure functions of values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from worker.web.console.words import known

Kind = Literal["text", "lines", "number", "whole", "truth", "choice", "json", "group"]
Form = Mapping[str, str]
Schema = Mapping[str, Any]

UNSET = object()
"""A value that was not given."""

_INPUT_TYPES = {"date": "date", "date-time": "text", "email": "email", "uri": "url", "time": "time"}
_SHORT = 80
_DEEPEST = 3
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form.

    Attributes:
        name: in the form; the parts of a nested field's name are joined by dots.
        label: a title out of the schema, or the property's own name.
        text: what stands in it.
        original: the value that was given; ``UNSET`` if there is a default at most.
        choices: values of a choice, as JSON texts, with what is shown of each.
        input_type: of the HTML element.
    """

    name: str
    label: str
    kind: Kind
    required: bool = True
    nullable: bool = False
    text: str = ""
    original: Any = UNSET
    help: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    input_type: str = "text"
    inner: tuple[Field, ...] = ()


class Problems(Exception):
    """What is wrong with what was typed: names of sentences and their fields, by field."""

    def __init__(self, found: Mapping[str, tuple[str, dict[str, str]]]) -> None:
        super().__init__(", ".join(found))
        self.found = dict(found)


# --- from a schema --------------------------------------------------------------------------


def fields_of(schema: Schema, values: Mapping[str, Any], prefix: str) -> tuple[Field, ...]:
    """The fields of an object.

    Args:
        schema: of the object; what it does not describe is guessed from ``values``.
        values: that stand in the fields at first.
        prefix: of the fields' names, such as ``arg``.
    """
    return _fields(schema, values, prefix, schema.get("$defs", {}), 0)


def _fields(
    schema: Schema, values: Mapping[str, Any], prefix: str, defs: Mapping[str, Any], depth: int
) -> tuple[Field, ...]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    names = [*properties, *(name for name in values if name not in properties)]
    return tuple(
        _field(
            name,
            f"{prefix}.{name}",
            properties.get(name) or guessed(values.get(name)),
            values.get(name, UNSET),
            name in required or name not in properties,
            defs,
            depth,
        )
        for name in names
    )


def one_field(schema: Schema, name: str, label: str, value: Any = UNSET) -> Field:
    """A single field for one value."""
    return _field(label, name, schema, value, True, schema.get("$defs", {}), 0)


def _field(
    label: str,
    name: str,
    schema: Schema,
    value: Any,
    required: bool,
    defs: Mapping[str, Any],
    depth: int,
) -> Field:
    plain, nullable = _without_null(resolved(schema, defs), defs)
    original = value
    if value is UNSET and "default" in plain:
        value = plain["default"]
    kind = _kind(plain, value, depth)
    common: dict[str, Any] = {
        "name": name,
        "label": str(plain.get("title") or label),
        "kind": kind,
        "required": required,
        "nullable": nullable,
        "original": original,
        "help": str(plain.get("description", "")),
    }
    if kind == "group":
        given = value if isinstance(value, dict) else {}
        return Field(**common, inner=_fields(plain, given, name, defs, depth + 1))
    return Field(
        **common,
        text=as_text(kind, value),
        choices=_choices(plain, kind),
        input_type=_INPUT_TYPES.get(str(plain.get("format", "")), "text"),
    )


def resolved(schema: Schema, defs: Mapping[str, Any] | None = None) -> Schema:
    """The schema behind references of the same document."""
    defs = schema.get("$defs", {}) if defs is None else defs
    for _ in range(10):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**defs.get(reference.removeprefix("#/$defs/"), {}), **rest}
    return {}


def _without_null(schema: Schema, defs: Mapping[str, Any]) -> tuple[Schema, bool]:
    """A schema and whether ``null`` is allowed beside it."""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        rest = [kind for kind in kinds if kind != "null"]
        single = {**schema, "type": rest[0]} if len(rest) == 1 else {}
        return single, "null" in kinds
    options = schema.get("anyOf")
    if not isinstance(options, list):
        return schema, False
    others = [option for option in options if option.get("type") != "null"]
    nullable = len(others) < len(options)
    if len(others) != 1:
        return {key: schema[key] for key in ("title", "description") if key in schema}, nullable
    kept = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**resolved(others[0], defs), **kept}, nullable


def _kind(schema: Schema, value: Any, depth: int) -> Kind:
    if "enum" in schema or "const" in schema:
        return "choice"
    match schema.get("type"):
        case "string":
            return _text_kind(schema, value)
        case "boolean":
            return "truth"
        case "integer":
            return "whole"
        case "number":
            return "number"
        case "object" if schema.get("properties") and depth < _DEEPEST:
            return "group" if value is UNSET or isinstance(value, dict) else "json"
    return "json"


def _text_kind(schema: Schema, value: Any) -> Kind:
    long = isinstance(value, str) and (len(value) > _SHORT or "\n" in value)
    short = "format" in schema or schema.get("maxLength", _SHORT) < _SHORT
    return "lines" if long or (not short and value is UNSET) else "text"


def _choices(schema: Schema, kind: Kind) -> tuple[tuple[str, str], ...]:
    if kind != "choice":
        return ()
    values: Sequence[Any] = schema.get("enum") or [schema.get("const")]
    return tuple((json.dumps(value, ensure_ascii=False), _shown(value)) for value in values)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def guessed(value: Any) -> Schema:
    """The schema of a value, where nothing says what may stand there."""
    match value:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
    return {}


def as_text(kind: Kind, value: Any) -> str:
    """What stands in a field at first."""
    if value is UNSET or value is None:
        return ""
    if kind in ("text", "lines") and isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2 if kind == "json" else None)


# --- from a form ----------------------------------------------------------------------------


def read_fields(fields: Sequence[Field], form: Form) -> dict[str, Any]:
    """The object that was typed; fields that were left empty and may be are left out.

    Raises:
        Problems: what is wrong with each field that cannot be used.
    """
    values: dict[str, Any] = {}
    wrong: dict[str, tuple[str, dict[str, str]]] = {}
    for field in fields:
        try:
            value = read_field(field, form)
        except Problems as error:
            wrong |= error.found
            continue
        if value is not UNSET:
            values[field.name.rpartition(".")[2]] = value
    if wrong:
        raise Problems(wrong)
    return values


def read_field(field: Field, form: Form) -> Any:
    """One value, or ``UNSET``.

    Raises:
        Problems
    """
    if field.kind == "group":
        return read_fields(field.inner, form)
    typed = form.get(field.name, "").replace("\r\n", "\n")
    if typed == _as_sent(field.text):
        return _unchanged(field)
    if not typed.strip() and field.kind not in ("text", "lines"):
        return _emptied(field)
    return _parsed(field, typed)


def _as_sent(text: str) -> str:
    """A text as a browser sends it back untouched, line ends apart."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


def _unchanged(field: Field) -> Any:
    """What was given; a default that nobody has touched is left to whoever has it."""
    if field.original is not UNSET or not field.required:
        return field.original
    if not field.text:
        raise _problem(field, "error_missing")
    return _parsed(field, field.text)


def _emptied(field: Field) -> Any:
    if field.nullable:
        return None
    if field.required:
        raise _problem(field, "error_missing")
    return UNSET


def _parsed(field: Field, typed: str) -> Any:
    match field.kind:
        case "text" | "lines":
            return typed
        case "number" | "whole":
            return _number(field, typed.strip())
        case "truth" | "choice":
            return _chosen(field, typed)
    try:
        return json.loads(typed, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _problem(field, "error_json", text=str(error)) from None


def _number(field: Field, typed: str) -> int | float:
    """A number, also with a decimal comma."""
    try:
        value = float(typed.replace(",", "."))
    except ValueError:
        raise _problem(field, "error_number") from None
    if not math.isfinite(value):
        raise _problem(field, "error_number")
    if field.kind == "number":
        return value
    if not value.is_integer():
        raise _problem(field, "error_whole")
    return int(typed) if typed.lstrip("+-").isdigit() else int(value)


def _chosen(field: Field, typed: str) -> Any:
    allowed = _TRUTH if field.kind == "truth" else {key: None for key, _ in field.choices}
    if typed not in allowed:
        raise _problem(field, "error_choice")
    return json.loads(typed)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _problem(field: Field, name: str, **fields: str) -> Problems:
    assert known(name)
    return Problems({field.name: (name, fields)})
