"""Arguments checked against a JSON schema that somebody else wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry

from worker.errors import ArgumentError
from worker.texts import Texts
from worker.tools.arguments import Arguments, SchemaReader

_LISTED = 10
_SHOWN = 80


class JsonSchemaReader(SchemaReader):
    """Checks everything that the schema says.

    Raises:
        ValueError: it is no JSON schema, or refers to another one, which nobody here may fetch.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise ValueError(error.message) from None
        foreign = set(_values(schema, "$ref")) - set(_values(schema, "$id"))
        for reference in foreign:
            if not reference.startswith("#"):
                raise ValueError(f"it refers to {reference}, which is not part of it")
        super().__init__(schema)
        self._validator: Validator = kind(schema, registry=Registry())

    def read(self, tool: str, arguments: str | None, texts: Texts) -> Arguments:
        """Check what a model sent; ArgumentError with a text for the model."""
        found = super().read(tool, arguments, texts)
        errors = sorted(self._validator.iter_errors(found.values), key=_place)
        if errors:
            problems = [_problem(error, texts) for error in errors[:_LISTED]]
            if len(errors) > _LISTED:
                problems.append(texts.more_problems(len(errors) - _LISTED))
            raise ArgumentError(texts.bad_arguments(tool, problems))
        return found


def _values(schema: Any, keyword: str) -> Iterator[str]:
    """What stands under a keyword, wherever in the schema."""
    if isinstance(schema, Mapping):
        if isinstance(schema.get(keyword), str):
            yield schema[keyword]
        for part in schema.values():
            yield from _values(part, keyword)
    elif isinstance(schema, list):
        for part in schema:
            yield from _values(part, keyword)


def _place(error: ValidationError) -> str:
    return ".".join(str(part) for part in error.absolute_path)


def _problem(error: ValidationError, texts: Texts) -> str:
    place, given = _place(error) or "(all)", repr(error.instance)
    return texts.bad_value(_short(place), _short(error.message, 200), _short(given))


def _short(text: str, most: int = _SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
