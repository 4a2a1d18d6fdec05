"""Other forms of one JSON schema: strict, without references, with plain arrays.

Pure functions from schema to schema. None changes what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

_MAPS = frozenset({"properties", "$defs", "patternProperties"})
_LISTS = frozenset({"prefixItems", "anyOf", "oneOf", "allOf"})
_SINGLES = frozenset({"items", "additionalProperties", "propertyNames", "contains", "not"})

# What servers with constrained decoding accept; anything else makes a schema non-strict.
_STRICT_KEYS = frozenset({
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum",
    "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum",
    "minItems", "minimum", "multipleOf", "pattern", "properties", "required", "type",
})  # fmt: skip
_STRICT_FORMATS = frozenset(
    {"date", "date-time", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_ANNOTATIONS = frozenset({"title", "default", "examples", "deprecated", "writeOnly"})
# How deep types that contain each other are written out, by the number of references in them:
# the size of the result is about that number to the power of the depth.
_DEPTHS = ((8, 3), (40, 2))


class _NotStrict(ValueError):
    """The schema allows what strict mode forbids."""


def rebuilt(node: Any, change: Callable[[Schema], Schema]) -> Any:
    """A copy in which ``change`` was applied to every sub-schema, the innermost first."""
    if not isinstance(node, dict):
        return node
    copy: Schema = {}
    for key, value in node.items():
        if key in _MAPS:
            copy[key] = {name: rebuilt(part, change) for name, part in value.items()}
        elif key in _LISTS:
            copy[key] = [rebuilt(part, change) for part in value]
        else:
            copy[key] = rebuilt(value, change) if key in _SINGLES else value
    return change(copy)


def resolved(node: Schema, root: Schema) -> Schema:
    """``node`` with its reference, if it is one, replaced by what it refers to."""
    seen: set[str] = set()
    while "$ref" in node and node["$ref"] not in seen:
        seen.add(node["$ref"])
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        node = {**root.get("$defs", {})[_definition(node["$ref"])], **siblings}
    return node


def _definition(reference: str) -> str:
    return reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")


def accepts_null(node: Schema, root: Schema) -> bool:
    """Whether JSON ``null`` is a valid value, as opposed to a way of leaving out the value."""
    node = resolved(node, root)
    choices = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    if choices:
        return any(accepts_null(choice, root) for choice in choices)
    if "enum" in node or "const" in node:
        return None in node.get("enum", [node.get("const")])
    kind = node.get("type")
    return kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)


def uniform_tuples(schema: Schema) -> Schema:
    """Give each tuple's array an ``items``, which many servers demand of every array."""
    result: Schema = rebuilt(schema, _with_items)
    return result


def _with_items(node: Schema) -> Schema:
    places = node.get("prefixItems")
    if not places or isinstance(node.get("items"), dict):
        return node
    distinct = [place for n, place in enumerate(places) if place not in places[:n]]
    fixed = node.get("minItems") == node.get("maxItems") == len(places)
    if len(distinct) == 1 and fixed:
        return {**{k: v for k, v in node.items() if k != "prefixItems"}, "items": distinct[0]}
    return {**node, "items": distinct[0] if len(distinct) == 1 else {"anyOf": distinct}}


def strict_form(schema: Schema) -> Schema | None:
    """The schema as strict mode wants it, or None where it cannot be had.

    Optional parameters become required and may be null, which the reader of the arguments takes
    for "left out". Objects become closed. A free-form object, an optional field inside a model or
    a keyword that constrained decoding does not know make it impossible.
    """
    properties = schema.get("properties", {})
    required = set(schema.get("required", ()))
    shown = {
        name: node if name in required or accepts_null(node, schema) else _or_null(node)
        for name, node in properties.items()
    }
    whole = {**schema, "properties": shown, "required": list(shown)}
    try:
        result: Schema = rebuilt(whole, lambda node: _strict_node(node, schema))
    except _NotStrict:
        return None
    return result


def _or_null(node: Schema) -> Schema:
    outer = {key: node[key] for key in ("description",) if key in node}
    inner = {key: value for key, value in node.items() if key not in ("description", "default")}
    return {"anyOf": [inner, {"type": "null"}], **outer}


def _strict_node(node: Schema, root: Schema) -> Schema:
    node = {key: value for key, value in node.items() if key not in _ANNOTATIONS}
    if "$ref" in node and len(node) > 1:
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        target = rebuilt(resolved({"$ref": node["$ref"]}, root), lambda n: _strict_node(n, root))
        return {**target, **siblings}
    if "oneOf" in node and "anyOf" not in node:
        node["anyOf"] = node.pop("oneOf")
        node.pop("discriminator", None)
    if not node.keys() & {"type", "anyOf", "$ref", "enum", "const"} or node.keys() - _STRICT_KEYS:
        raise _NotStrict
    if node.get("format", "date") not in _STRICT_FORMATS:
        raise _NotStrict
    return _closed(node) if node.get("type") == "object" else node


def _closed(node: Schema) -> Schema:
    names = list(node.get("properties", {}))
    if node.get("additionalProperties", False) is not False or "properties" not in node:
        raise _NotStrict
    if set(node.get("required", ())) != set(names):
        raise _NotStrict
    return {**node, "required": names, "additionalProperties": False}


def inlined(schema: Schema) -> Schema:
    """The schema without references, for servers that refuse them.

    A type that contains itself is written out once; where it comes up again inside itself, only
    its kind is given, and the arguments are still fully checked when they arrive.
    """
    definitions: dict[str, Schema] = schema.get("$defs", {})
    cycles = _cycles(definitions)
    deepest = _depth(definitions, cycles)

    def expand(node: Any, inside: tuple[str, ...]) -> Any:
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return {**follow(node["$ref"], inside), **_siblings(node, expand, inside)}
        return _siblings(node, expand, inside)

    def follow(reference: str, inside: tuple[str, ...]) -> Schema:
        name = _definition(reference)
        together = [other for other in inside if other in cycles[name]]
        if name in inside or len(together) >= deepest:
            return _only_kind(name, definitions[name])
        result: Schema = expand(definitions[name], (*inside, name))
        return result

    return {key: value for key, value in expand(schema, ()).items() if key != "$defs"}


def _siblings(
    node: Schema, expand: Callable[[Any, tuple[str, ...]], Any], inside: tuple[str, ...]
) -> Schema:
    copy: Schema = {}
    for key, value in node.items():
        if key in _MAPS and key != "$defs":
            copy[key] = {name: expand(part, inside) for name, part in value.items()}
        elif key in _LISTS:
            copy[key] = [expand(part, inside) for part in value]
        elif key in _SINGLES:
            copy[key] = expand(value, inside)
        elif key not in ("$ref", "$defs", "discriminator"):
            copy[key] = value
    return copy


def _only_kind(name: str, definition: Schema) -> Schema:
    kind = {"type": definition["type"]} if "type" in definition else {}
    return {**kind, "description": f"again of the form {name.rpartition('__')[2]}"}


def _cycles(definitions: dict[str, Schema]) -> dict[str, set[str]]:
    """For each definition, those that contain it and that it contains."""
    reach = {name: set(_references(node)) for name, node in definitions.items()}
    for middle in definitions:
        for name in definitions:
            if middle in reach[name]:
                reach[name] |= reach[middle]
    return {name: {other for other in reach[name] if name in reach[other]} for name in definitions}


def _depth(definitions: dict[str, Schema], cycles: dict[str, set[str]]) -> int:
    count = sum(len(_references(node)) for name, node in definitions.items() if cycles[name])
    return next((depth for most, depth in _DEPTHS if count <= most), 1)


def _references(node: Schema) -> list[str]:
    found: list[str] = []

    def note(part: Schema) -> Schema:
        if "$ref" in part:
            found.append(_definition(part["$ref"]))
        return part

    rebuilt(node, note)
    return found
