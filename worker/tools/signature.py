"""Reads a Python callable: its name, its parameters, its hidden context.

Everything that cannot be offered to a model is refused here or in ``schema``, at registration,
with the tool's and the parameter's name.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, is_dataclass
from functools import partial
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from worker.context import ActionContext
from worker.errors import ToolRegistrationError

MISSING: Any = inspect.Parameter.empty
_GUESSED = (str, int, float, bool)
_KEPT = ("title", "description", "examples", "discriminator", "deprecated", "json_schema_extra")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter that the model fills in.

    Attributes:
        annotation: the type with its metadata, without any default.
        default: the default, or ``MISSING``.
        factory: makes the default anew for each call, or None.
        passed: whether an omitted value is passed all the same, because the function's own
            default is a ``Field(...)`` or may be changed by the function.
    """

    name: str
    annotation: Any
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    passed: bool = False

    @property
    def required(self) -> bool:
        """Whether the model must give a value."""
        return self.default is MISSING and self.factory is None

    def make_default(self) -> Any:
        """The default for one call: never shared if the function could change it."""
        return self.factory() if self.factory else deepcopy(self.default)


@dataclass(frozen=True, slots=True)
class ContextParameter:
    """The parameter that the service fills in."""

    name: str
    type: type[ActionContext]
    optional: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """What a callable takes. ``bound`` names the arguments that a ``partial`` has fixed."""

    parameters: tuple[Parameter, ...]
    context: ContextParameter | None
    bound: frozenset[str]


def innermost(function: Callable[..., Any]) -> Any:
    """The function behind partials, bound methods, wrappers and callable objects."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.isroutine(function) or inspect.isclass(function):
            return function
        else:
            function = type(function).__call__


def natural_name(function: Callable[..., Any]) -> str:
    """The name a tool has when none is given; an object's is its class's."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", None) or type(function).__name__)


def documentation(function: Callable[..., Any]) -> str | None:
    """The docstring of the function itself, never that of ``partial`` or of ``object``."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function):
        return function.__doc__
    return innermost(function).__doc__ or type(function).__doc__


def read_signature(function: Callable[..., Any], tool: str) -> Signature:
    """What ``function`` takes.

    Args:
        function: any callable.
        tool: the tool's name, for error texts.

    Raises:
        ToolRegistrationError: a parameter cannot be filled in by a model.
    """
    found = _inspect(function, tool)
    bound = _bound_names(function)
    parameters: list[Parameter] = []
    contexts: list[ContextParameter] = []
    namespace = getattr(innermost(function), "__globals__", {})
    for parameter in found.parameters.values():
        if parameter.name in bound:
            continue
        _refuse_kinds(parameter, tool)
        annotation = _resolve(parameter, namespace, tool)
        context = _as_context(parameter, annotation)
        if context:
            contexts.append(context)
        else:
            parameters.append(_as_parameter(parameter, annotation, tool))
    return Signature(tuple(parameters), _only(contexts, tool), bound)


def _inspect(function: Callable[..., Any], tool: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (NameError, TypeError, ValueError) as error:
        raise ToolRegistrationError(
            f"tool {tool!r}: its parameters cannot be read ({error}); wrap it in a function with "
            "annotated parameters, whose types can be imported where it is defined"
        ) from error


def _bound_names(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(function.keywords) if isinstance(function, partial) else frozenset()


def _refuse_kinds(parameter: inspect.Parameter, tool: str) -> None:
    advices: dict[Any, str] = {
        inspect.Parameter.VAR_POSITIONAL: "take one parameter of type list instead",
        inspect.Parameter.VAR_KEYWORD: "name each parameter, or take one of type dict instead",
        inspect.Parameter.POSITIONAL_ONLY: "remove the '/' so that it can be passed by name",
    }
    advice = advices.get(parameter.kind)
    if advice:
        shown = str(parameter.replace(annotation=MISSING, default=MISSING))
        raise ToolRegistrationError(f"tool {tool!r}, parameter {shown!r}: {advice}")


def _resolve(parameter: inspect.Parameter, namespace: Mapping[str, Any], tool: str) -> Any:
    """The annotation as a type; without one, the type of a plain default, otherwise ``str``."""
    if parameter.annotation is MISSING:
        return next((t for t in _GUESSED if type(parameter.default) is t), str)
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        hints = typing.get_type_hints(holder, globalns=dict(namespace), include_extras=True)
    except Exception as error:
        raise ToolRegistrationError(
            f"tool {tool!r}, parameter {parameter.name!r}: the annotation "
            f"{parameter.annotation!r} cannot be resolved ({error}); import or define the type at "
            "module level, outside of TYPE_CHECKING"
        ) from error
    return hints[parameter.name]


def _as_context(parameter: inspect.Parameter, annotation: Any) -> ContextParameter | None:
    bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    choices = get_args(bare) if get_origin(bare) in (Union, types.UnionType) else (bare,)
    kinds = [kind for kind in choices if kind is not type(None)]
    if len(kinds) != 1 or not isinstance(kinds[0], type) or not issubclass(kinds[0], ActionContext):
        return None
    optional = len(choices) > 1 or parameter.default is not MISSING
    return ContextParameter(parameter.name, kinds[0], optional)


def _only(contexts: list[ContextParameter], tool: str) -> ContextParameter | None:
    if len(contexts) > 1:
        names = ", ".join(repr(context.name) for context in contexts)
        raise ToolRegistrationError(
            f"tool {tool!r}: the parameters {names} all take a hidden context; take one, of a "
            "class that inherits from all that are needed"
        )
    return contexts[0] if contexts else None


def _as_parameter(parameter: inspect.Parameter, annotation: Any, tool: str) -> Parameter:
    annotation, inner = _without_default(annotation)
    default = parameter.default
    if isinstance(default, FieldInfo):
        annotation = Annotated[annotation, *_bare(default)]
        field, passed = default, True
    elif default is MISSING and inner is not None:
        field, passed = inner, True
    else:
        return Parameter(parameter.name, annotation, default, passed=_is_mutable(default))
    factory = field.default_factory
    if factory is not None and field.default_factory_takes_validated_data:
        raise ToolRegistrationError(
            f"tool {tool!r}, parameter {parameter.name!r}: its default_factory must take nothing"
        )
    value = MISSING if field.default in (PydanticUndefined, ...) else field.default
    return Parameter(parameter.name, annotation, value, factory, passed)  # type: ignore[arg-type]


def _is_mutable(default: Any) -> bool:
    changeable = isinstance(default, (list, dict, set, bytearray, BaseModel))
    return changeable or (is_dataclass(default) and not isinstance(default, type))


def _without_default(annotation: Any) -> tuple[Any, FieldInfo | None]:
    """The annotation with defaults taken out of its ``Field(...)``, and the last such field."""
    if get_origin(annotation) is not Annotated:
        return annotation, None
    base, *metadata = get_args(annotation)
    fields = [m for m in metadata if isinstance(m, FieldInfo) and not m.is_required()]
    bare = [part for m in metadata for part in (_bare(m) if isinstance(m, FieldInfo) else [m])]
    return Annotated[base, *bare], fields[-1] if fields else None


def _bare(field: FieldInfo) -> list[Any]:
    """A field's metadata without default and alias: the function's names and defaults count."""
    described = field.asdict()
    attributes = {
        name: value
        for name, value in described["attributes"].items()
        if name in _KEPT and value is not None
    }
    return [*described["metadata"], Field(**attributes)]
