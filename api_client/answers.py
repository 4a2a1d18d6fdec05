"""Which answers a pause takes, as JSON schemas, and whether a signal is one of them.

A check here saves a round through a worker. It does not replace the worker's own: that one knows
the tool and the types, and pauses the job again for what does not fit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from api_client.errors import SignalRefused, shorten
from api_client.signals import SIGNAL_MODELS, Signal

Schema = dict[str, Any]

MAX_PROBLEMS = 5
_NESTED = 50
_OPTIONAL = frozenset({("approve", "arguments")})
_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
}


def answer_schemas(
    kinds: Collection[str], special: Mapping[str, Mapping[str, Any]]
) -> dict[str, Schema]:
    """The JSON schema of each kind of signal.

    Args:
        kinds: those of which this version knows nothing are left out.
        special: schemas of single fields, by kind and field.
    """
    known = [kind for kind in kinds if kind in SIGNAL_MODELS]
    return {kind: _with_special(kind, special.get(kind, {})) for kind in known}


@lru_cache
def _general(kind: str) -> Schema:
    schema = SIGNAL_MODELS[kind].model_json_schema()
    schema["required"] = ["kind", *schema.get("required", ())]
    return schema


def _with_special(kind: str, special: Mapping[str, Any]) -> Schema:
    """The general schema, in which some fields are described more closely."""
    schema = _general(kind)
    properties, definitions = dict(schema["properties"]), dict(schema.get("$defs", {}))
    for field, given in special.items():
        closer = dict(given)
        definitions.update(closer.pop("$defs", {}))  # references in it begin at the root
        optional = (kind, field) in _OPTIONAL
        properties[field] = {"anyOf": [closer, {"type": "null"}]} if optional else closer
    more = {"$defs": definitions} if definitions else {}
    return {**schema, "properties": properties, **more}


def check_answer(
    job_id: str,
    accepts: Collection[str],
    schemas: Mapping[str, Schema],
    signal: Signal,
    proposed: int = 1,
) -> None:
    """Refuse a signal that the pause cannot take.

    Args:
        accepts: kinds that the pause takes.
        schemas: from ``answer_schemas``.
        proposed: how many actions the pause is about.

    Raises:
        SignalRefused: names the kinds that it takes, or each value that does not fit.
    """
    if signal.kind not in accepts:
        raise SignalRefused(
            f"job {job_id}: this pause takes no {signal.kind!r}, but: {', '.join(accepts)}"
        )
    if proposed > 1 and getattr(signal, "arguments", None) is not None:
        raise SignalRefused(
            f"job {job_id}: {proposed} actions are proposed; give changed arguments by call, "
            "with the signal 'decide'"
        )
    given = signal.model_dump(mode="json")
    found = list(problems(schemas.get(signal.kind, {}), given))
    if found:
        shown = "; ".join(found[:MAX_PROBLEMS])
        raise SignalRefused(f"job {job_id}: {signal.kind} does not fit: {shown}")


def load_checker() -> None:
    """Load what checks answers, if it is installed, so that the first decision need not wait."""
    if find_spec("jsonschema") is not None:
        import_module("jsonschema")


def problems(schema: Schema, value: Any) -> Iterator[str]:
    """What is wrong with a value, one line each.

    With ``jsonschema`` installed every keyword is checked, otherwise types, names and choices.
    """
    if find_spec("jsonschema") is None:
        yield from _structural(schema, value, schema, "", 0)
        return
    validator = import_module("jsonschema").Draft202012Validator(schema)
    for error in validator.iter_errors(value):
        yield from _lines(error)


def _lines(error: Any) -> Iterator[str]:
    """What jsonschema has found, each value by its place."""
    chosen = _branch(error)
    if chosen:
        for inner in chosen:
            yield from _lines(inner)
        return
    place = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        for name in error.instance.keys() - known.keys():
            yield _unexpected(f"{place}.{name}".lstrip("."), error.instance[name], known)
        return
    yield f"{place or 'value'}: {_short(error.message)}"


def _branch(error: Any) -> list[Any]:
    """Of several shapes that a value may have, what is wrong with it as the one that it means.

    Empty if it is of none of their types, or if there is one shape only.
    """
    branches: dict[Any, list[Any]] = {}
    for inner in error.context if error.validator in ("anyOf", "oneOf") else ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    of_its_type = [
        found
        for found in branches.values()
        if not any(one.validator == "type" and not one.relative_path for one in found)
    ]
    return of_its_type[0] if of_its_type else []


def _unexpected(place: str, value: Any, known: Collection[str]) -> str:
    return f"{place}: {shorten(value)} is not expected; there are: {', '.join(known) or 'none'}"


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"


def _structural(schema: Any, value: Any, root: Schema, place: str, depth: int) -> Iterator[str]:
    """Types, required and unknown names, and choices."""
    if not isinstance(schema, Mapping) or depth > _NESTED:
        return
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        yield from _structural(root.get("$defs", {}).get(name), value, root, place, depth + 1)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices and all(any(_structural(c, value, root, place, depth + 1)) for c in choices):
        yield from _structural(choices[0], value, root, place, depth + 1)
    yield from _kind_problems(schema, value, place)
    if isinstance(value, dict):
        yield from _object_problems(schema, value, root, place, depth)
    if isinstance(value, list):
        for number, item in enumerate(value):
            inner = f"{place}.{number}".lstrip(".")
            yield from _structural(schema.get("items"), item, root, inner, depth + 1)


def _kind_problems(schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
    wanted = schema.get("type")
    kinds = [wanted] if isinstance(wanted, str) else wanted or ()
    if kinds and not any(_is(kind, value) for kind in kinds):
        yield f"{place or 'value'}: {shorten(value)} is no {' or '.join(kinds)}"
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if allowed is not None and value not in allowed:
        yield f"{place or 'value'}: {shorten(value)} is none of {shorten(allowed)}"


def _is(kind: str, value: Any) -> bool:
    if kind in ("integer", "number"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (kind == "number" or float(value).is_integer())
    return isinstance(value, _TYPES.get(kind, object))


def _object_problems(
    schema: Mapping[str, Any], value: dict[str, Any], root: Schema, place: str, depth: int
) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place or 'value'}: {name!r} is missing"
    other = schema.get("additionalProperties")
    for name, item in value.items():
        inner = f"{place}.{name}".lstrip(".")
        if name in properties:
            yield from _structural(properties[name], item, root, inner, depth + 1)
        elif other is False:
            yield _unexpected(inner, item, properties)
        else:
            yield from _structural(other, item, root, inner, depth + 1)
