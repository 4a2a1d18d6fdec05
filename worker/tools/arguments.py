"""From the text a model sent to the values a tool is called with.

The rules, which hold for every tool:

- Nothing, blanks and ``null`` count as ``{}``. Anything else must be one JSON object.
- A number sent as text (``"5"``, ``"1.0"``) is taken where a number is wanted, and a whole number
  with a fraction of zero where an ``int`` is; nothing is rounded or cut. A text is never made of
  something else: ``"None"`` stays that text.
- A name the tool does not have is refused, and nothing is run.
- ``null`` for a parameter that has a default and does not take null means the default.
- A value for a hidden parameter is dropped and reported in ``Arguments.ignored``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from worker.errors import ArgumentError
from worker.strict_json import strict_json
from worker.texts import Texts
from worker.tools.forms import Schema, accepts_null
from worker.tools.signature import Parameter, Signature

_EXCERPT = 20
_SHOWN = 80
_LISTED = 10
_SCALARS = (str, int, float, bool, type(None))
_KINDS: dict[type, str] = {
    list: "array", str: "string", int: "number", float: "number", bool: "boolean",
    type(None): "null",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checked arguments of one call.

    Attributes:
        values: by parameter, of the types that the function declares.
        canonical: what the model sent, as JSON with sorted names and without ignored ones: equal
            calls have equal texts.
        ignored: names the model may not set, which it tried to.
    """

    values: dict[str, Any]
    canonical: str
    ignored: tuple[str, ...] = ()


_CANONICAL = json.JSONEncoder(ensure_ascii=False, sort_keys=True, allow_nan=False)


class Reader(Protocol):
    """Reads the arguments of one tool."""

    def read(self, tool: str, arguments: str | None, texts: Texts) -> Arguments:
        """Check what a model sent; ArgumentError with a text for the model."""
        ...

    def fresh(self, arguments: Arguments) -> dict[str, Any]:
        """Values for one execution, which share nothing with ``arguments``."""
        ...


def load_object(arguments: str | None, texts: Texts) -> dict[str, Any]:
    """The JSON object in ``arguments``.

    Raises:
        ArgumentError: it is no JSON, or no object.
    """
    text = arguments or ""
    if not text.strip():
        return {}
    try:
        loaded = strict_json(text)
    except json.JSONDecodeError as error:
        raise _not_json(text, error.msg, error.pos, texts) from None
    except (ValueError, RecursionError) as error:
        raise _not_json(text, _reason(error), 0, texts) from None
    if isinstance(loaded, dict):
        return loaded
    raise ArgumentError(texts.not_object(_KINDS[type(loaded)]))


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _not_json(text: str, reason: str, position: int, texts: Texts) -> ArgumentError:
    before, after = text[:position][-_EXCERPT:], text[position:][:_EXCERPT]
    return ArgumentError(texts.not_json(reason, position, _json(before + after)))


def _json(value: Any) -> str:
    return clean_surrogates(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))


def canonical_json(value: dict[str, Any], texts: Texts) -> str:
    """The object as JSON text with sorted names; every text in it can be encoded.

    Raises:
        ArgumentError: a number is too large for JSON.
    """
    try:
        text = _CANONICAL.encode(value)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(texts.not_json(_reason(error), 0, "{")) from None
    return clean_surrogates(text)


def clean_surrogates(text: str) -> str:
    """The text with halves of surrogate pairs joined, or replaced where one half is missing."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class ParameterReader:
    """Arguments of a Python function.

    Args:
        model: validates them; its field ``pN`` holds the Nth of the parameters.
        signature: of the function.
        schema: the model's JSON schema.
    """

    def __init__(self, model: type[BaseModel], signature: Signature, schema: Schema) -> None:
        self._validator = model.__pydantic_validator__
        self._parameters = signature.parameters
        self._fields = {f"p{n}": p.name for n, p in enumerate(signature.parameters)}
        self._passed = [p for p in signature.parameters if p.passed]
        self._hidden = set(signature.bound)
        if signature.context:
            self._hidden.add(signature.context.name)
        self._droppable = _droppable(signature.parameters, schema)

    def read(self, tool: str, arguments: str | None, texts: Texts) -> Arguments:
        """Check what a model sent; ArgumentError with a text for the model."""
        given = load_object(arguments, texts)
        ignored = tuple(sorted(given.keys() & self._hidden))
        for name in ignored:
            del given[name]
        for name in self._droppable:
            if given.get(name, name) is None:
                del given[name]
        canonical = canonical_json(given, texts)
        try:
            return Arguments(self._validate(canonical), canonical, ignored)
        except ValidationError as error:
            problems = _problems(error, [p.name for p in self._parameters], texts)
            raise ArgumentError(texts.bad_arguments(tool, problems)) from None
        except Exception as error:  # A validator of the author's may raise anything.
            raise _validator_failed(tool, error, texts) from error

    def _validate(self, canonical: str) -> dict[str, Any]:
        instance = self._validator.validate_json(canonical)
        given = instance.model_fields_set
        values = {
            self._fields[field]: value
            for field, value in instance.__dict__.items()
            if field in given
        }
        for parameter in self._passed:
            if parameter.name not in values:
                values[parameter.name] = parameter.make_default()
        return values

    def fresh(self, arguments: Arguments) -> dict[str, Any]:
        """Values for one execution, which share nothing with ``arguments``."""
        if all(isinstance(value, _SCALARS) for value in arguments.values.values()):
            return dict(arguments.values)
        return self._validate(arguments.canonical)


def _droppable(parameters: Sequence[Parameter], schema: Schema) -> tuple[str, ...]:
    properties = schema.get("properties", {})
    return tuple(
        parameter.name
        for parameter in parameters
        if not parameter.required and not accepts_null(properties[parameter.name], schema)
    )


class OutputReader:
    """An agent's final answer, as the arguments of its terminal tool.

    ``Arguments.values`` is the JSON form of the answer; ``wrapped`` says that the answer is in
    its only entry, ``result``.
    """

    def __init__(self, adapter: TypeAdapter[Any], names: Collection[str], wrapped: bool) -> None:
        self._adapter = adapter
        self._names = names
        self.wrapped = wrapped

    def read(self, tool: str, arguments: str | None, texts: Texts) -> Arguments:
        """Check what a model sent; ArgumentError with a text for the model."""
        given = load_object(arguments, texts)
        canonical = canonical_json(given, texts)
        try:
            answer = self._adapter.validate_json(canonical)
            values = self._adapter.dump_python(answer, mode="json", by_alias=True)
        except ValidationError as error:
            problems = _problems(error, self._names, texts)
            raise ArgumentError(texts.bad_arguments(tool, problems)) from None
        except Exception as error:
            raise _validator_failed(tool, error, texts) from error
        return Arguments(values, canonical)

    def fresh(self, arguments: Arguments) -> dict[str, Any]:
        """A copy of the answer's JSON form."""
        copy: dict[str, Any] = json.loads(json.dumps(arguments.values))
        return copy


class SchemaReader:
    """Arguments of a tool whose schema was given, not derived: only the outermost level is
    checked here, the rest by whoever gave the schema."""

    def __init__(self, schema: Mapping[str, Any], hidden: Collection[str] = ()) -> None:
        self._names = list(schema.get("properties", {}))
        self._required = list(schema.get("required", ()))
        self._open = schema.get("additionalProperties", "properties" not in schema) is not False
        self._hidden = frozenset(hidden)

    def read(self, tool: str, arguments: str | None, texts: Texts) -> Arguments:
        """Check what a model sent; ArgumentError with a text for the model."""
        given = load_object(arguments, texts)
        ignored = tuple(sorted(given.keys() & self._hidden))
        kept = {name: value for name, value in given.items() if name not in self._hidden}
        unknown = [] if self._open else [name for name in kept if name not in self._names]
        problems = [
            *(texts.missing_argument(name) for name in self._required if name not in kept),
            *(texts.unknown_argument(_short(name), self._names) for name in unknown),
        ]
        if problems:
            raise ArgumentError(texts.bad_arguments(tool, problems))
        canonical = canonical_json(kept, texts)
        return Arguments(json.loads(canonical), canonical, ignored)

    def fresh(self, arguments: Arguments) -> dict[str, Any]:
        """Values for one execution, which share nothing with ``arguments``."""
        copy: dict[str, Any] = json.loads(arguments.canonical)
        return copy


def _validator_failed(tool: str, error: Exception, texts: Texts) -> ArgumentError:
    # The text of an exception nobody planned may hold anything, so only its kind is told.
    return ArgumentError(texts.bad_arguments(tool, [type(error).__name__]))


def _problems(error: ValidationError, names: Collection[str], texts: Texts) -> list[str]:
    details = error.errors(include_url=False, include_context=False)
    told = [_problem(detail, names, texts) for detail in details[:_LISTED]]
    more = len(details) - _LISTED
    return [*told, texts.more_problems(more)] if more > 0 else told


def _problem(detail: ErrorDetails, names: Collection[str], texts: Texts) -> str:
    place = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "missing":
        return texts.missing_argument(place)
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        return texts.unknown_argument(_short(place), names)
    return texts.bad_value(_short(place), detail["msg"], _short(_json(detail["input"])))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
