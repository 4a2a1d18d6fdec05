"""From a signature to a validating model and a JSON schema that says the same.

The model's fields have names of their own, and carry a parameter's name only as an alias, so that
a parameter called ``model_config`` or ``copy`` is like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, core_schema, to_jsonable_python

from worker.context import ActionContext
from worker.errors import ToolRegistrationError
from worker.redact import is_secret_name, looks_secret
from worker.tools.forms import Schema, accepts_null, uniform_tuples
from worker.tools.signature import Parameter

_UNFIT_KEYS = frozenset({"list", "tuple", "set", "dict", "model", "dataclass", "typed-dict", "any"})


class _Unfaithful(TypeError):
    """A type whose values a JSON schema cannot describe."""


class _Faithful(GenerateJsonSchema):
    """Pydantic's schema generator, refusing where it would otherwise be silent or vague."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """A union's choice that has no schema makes the whole type unfit; defaults may lack one."""
        if kind == "skipped-choice":
            raise _Unfaithful(detail)

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - as inherited
        """Titles made from names say nothing new and cost tokens."""
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        _refuse_context(schema["cls"])
        return super().model_schema(schema)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        _refuse_context(schema["cls"])
        return super().dataclass_schema(schema)

    def generator_schema(
        self,
        schema: core_schema.GeneratorSchema,  # noqa: ARG002 - as inherited
    ) -> JsonSchemaValue:
        raise _Unfaithful("an iterable is checked only while it is read; use list")

    def is_subclass_schema(
        self,
        schema: core_schema.IsSubclassSchema,  # noqa: ARG002 - as inherited
    ) -> JsonSchemaValue:
        raise _Unfaithful("a class cannot be sent as JSON; use Literal with the names to choose")

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        keys = schema.get("keys_schema", {"type": "str"})
        if keys["type"] in _UNFIT_KEYS - {"any"}:
            raise _Unfaithful("the keys of a JSON object are texts; use a list of models instead")
        return super().dict_schema(schema)


_SCHEMA_ERRORS = (
    _Unfaithful,
    PydanticUserError,
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    RecursionError,
    TypeError,
)


def _refuse_context(cls: type) -> None:
    if issubclass(cls, ActionContext):
        raise _Unfaithful(
            f"{cls.__name__} is a hidden context; it can only be a parameter of its own"
        )


def build_model(
    tool: str, parameters: Sequence[Parameter], docs: Mapping[str, str]
) -> type[BaseModel]:
    """A model that validates the arguments of one tool.

    Its fields are called ``p0``, ``p1`` and so on, in the order of ``parameters``.

    Raises:
        ToolRegistrationError: a type has no faithful schema; names tool and parameter.
    """
    fields: dict[str, Any] = {
        f"p{number}": (parameter.annotation, _field(parameter, docs.get(parameter.name)))
        for number, parameter in enumerate(parameters)
    }
    config = ConfigDict(extra="forbid", protected_namespaces=())
    try:
        model: type[BaseModel] = create_model("Arguments", __config__=config, **fields)
        model.model_json_schema(schema_generator=_Faithful)
    except _SCHEMA_ERRORS as error:
        raise _named(tool, parameters, error) from error
    return model


def _field(parameter: Parameter, said: str | None) -> Any:
    name = parameter.name
    given: dict[str, Any] = {"alias": name, "validation_alias": name}
    if not parameter.required:
        given["default"] = None
    if said and not _describes_itself(parameter.annotation):
        given["description"] = said
    return Field(**given)


def _describes_itself(annotation: Any) -> bool:
    metadata = getattr(annotation, "__metadata__", ())
    return any(getattr(part, "description", None) for part in metadata)


def _named(tool: str, parameters: Sequence[Parameter], error: Exception) -> ToolRegistrationError:
    """The error with the name of the parameter that caused it."""
    for parameter in parameters:
        reason = _why_unfit(parameter.annotation)
        if reason:
            return ToolRegistrationError(
                f"tool {tool!r}, parameter {parameter.name!r}: no JSON schema can describe its "
                f"type {_shown(parameter.annotation)}: {reason}"
            )
    return ToolRegistrationError(f"tool {tool!r}: no JSON schema can describe it: {error}")


def _why_unfit(annotation: Any) -> str | None:
    try:
        TypeAdapter(annotation).json_schema(schema_generator=_Faithful)
    except _SCHEMA_ERRORS as error:
        return str(error).splitlines()[0]
    return None


def _shown(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def model_schema(model: type[BaseModel], parameters: Sequence[Parameter]) -> Schema:
    """The JSON schema of ``build_model``'s result, with the functions' own defaults."""
    schema = model.model_json_schema(schema_generator=_Faithful)
    schema.pop("title", None)
    for parameter in parameters:
        _show_default(schema, parameter)
    return tidy(schema)


def type_schema(adapter: TypeAdapter[Any]) -> Schema:
    """The JSON schema of any type.

    Raises:
        TypeError, PydanticUserError: the type has no faithful schema.
    """
    schema = adapter.json_schema(schema_generator=_Faithful)
    schema.pop("title", None)
    return tidy(schema)


def tidy(schema: Schema) -> Schema:
    """Without titles that only repeat a class name, and with ``items`` in every array."""
    for definition in schema.get("$defs", {}).values():
        definition.pop("title", None)
    return uniform_tuples(schema)


def _show_default(schema: Schema, parameter: Parameter) -> None:
    shown = schema["properties"][parameter.name]
    shown.pop("default", None)
    if parameter.required or parameter.factory:
        return
    default = parameter.default
    if default is None and not accepts_null(shown, schema):
        return
    if isinstance(default, str) and (is_secret_name(parameter.name) or looks_secret(default)):
        return
    try:
        shown["default"] = to_jsonable_python(default)
    except (PydanticSerializationError, ValueError):
        return  # A marker object: that the parameter is optional is all there is to say.
