"""Arguments checked against a schema that somebody else wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from worker.errors import ArgumentError
from worker.mcp.reader import JsonSchemaReader
from worker.texts import texts_for

SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "string", "pattern": "^[0-9]+$"},
        "to": {"$ref": "#/$defs/Address"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
    },
    "required": ["order"],
    "$defs": {
        "Address": {
            "type": "object",
            "properties": {"number": {"type": "integer"}},
            "required": ["number"],
        }
    },
}
ENGLISH = texts_for("en")


def error_of(arguments: Any, schema: dict[str, Any] = SCHEMA) -> str:
    with pytest.raises(ArgumentError) as caught:
        JsonSchemaReader(schema).read("move", json.dumps(arguments), ENGLISH)
    return caught.value.text


def test_what_fits_is_passed_on_as_it_came() -> None:
    given = {"order": "7", "to": {"number": 3, "more": None}, "tags": ["a"]}
    reader = JsonSchemaReader(SCHEMA)
    found = reader.read("move", json.dumps(given), ENGLISH)
    assert found.values == reader.fresh(found) == given
    assert reader.fresh(found)["to"] is not found.values["to"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"order": "x"}, ["order", "'x'"]),
        ({"order": "7", "to": {"number": "3"}}, ["to.number", "'3'", "integer"]),
        ({"order": "7", "tags": ["a", "c"]}, ["tags.1", "'c'"]),
        ({"order": "7", "tags": ["a", "b", "a"]}, ["tags"]),
        ({}, ["order"]),
        ({"order": "7", "other": 1}, ["other"]),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(arguments: Any, told: list[str]) -> None:
    text = error_of(arguments)
    assert "wrong arguments for move" in text
    assert all(word in text for word in told)


def test_of_many_problems_the_first_are_told() -> None:
    schema = {"type": "object", "properties": {"n": {"items": {"type": "string"}}}}
    text = error_of({"n": list(range(30))}, schema)
    assert text.count("is not of type") == 10
    assert "20" in text


def test_a_long_value_is_shown_short() -> None:
    assert len(error_of({"order": "x" * 10_000})) < 600


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "nonsense"}, "nonsense"),
        ({"type": "object", "properties": 3}, "3 is not of type"),
        (
            {"type": "object", "properties": {"x": {"$ref": "http://example.com/s.json"}}},
            "it refers to http://example.com/s.json",
        ),
    ],
)
def test_what_is_no_schema_or_no_whole_one_is_refused(schema: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is looked at
        JsonSchemaReader(schema)
    assert told in str(caught.value)


def test_a_schema_may_refer_to_itself() -> None:
    part = {"$id": "http://example.com/n", "type": "integer"}
    whole = {"type": "object", "properties": {"x": {"$ref": "http://example.com/n"}}}
    reader = JsonSchemaReader({**whole, "$defs": {"n": part}})
    assert reader.read("t", '{"x": 1}', ENGLISH).values == {"x": 1}
    assert "integer" in error_of({"x": "1"}, {**whole, "$defs": {"n": part}})
