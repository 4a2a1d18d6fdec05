"""Makes tools of functions: the decorator, and what stands behind it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from worker.errors import ToolRegistrationError
from worker.tools.arguments import ParameterReader, Reader, SchemaReader
from worker.tools.base import DEFAULT_TIMEOUT, Tool, ToolOptions
from worker.tools.docstring import read_docstring
from worker.tools.forms import Schema
from worker.tools.isolate import place_of
from worker.tools.schema import build_model, model_schema
from worker.tools.signature import (
    Signature,
    documentation,
    innermost,
    natural_name,
    read_signature,
)

_TOOL = "__stepkeeper_tool__"
_OPTIONS = "__stepkeeper_options__"

F = TypeVar("F", bound=Callable[..., Any])


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(description: str, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
def tool(
    first: Callable[..., Any] | str | None = None, /, **options: Unpack[ToolOptions]
) -> Callable[..., Any]:
    """Make a tool of a function: ``@tool``, ``@tool("what it does")`` or ``@tool(effects=...)``.

    The function is returned unchanged and can be called as before. A method becomes a tool when
    it is taken from an instance: ``Agent(tools=[shop.find_order])``.

    Raises:
        ToolRegistrationError: it cannot be a tool as it is written; says what to change.
    """
    if isinstance(first, str):
        options["description"] = first
    elif first is not None:
        return _attach(first, options)
    return partial(_attach, options=options)


def _attach(function: F, options: ToolOptions) -> F:
    try:
        setattr(function, _OPTIONS, options)
    except (AttributeError, TypeError):
        raise ToolRegistrationError(
            f"tool {natural_name(function)!r}: a {type(function).__name__} cannot be decorated; "
            "give it to build_tool"
        ) from None
    if not _is_method(function):
        setattr(function, _TOOL, build_tool(function, **options))
    return function


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether it stands in a class body, and so has no instance yet."""
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    code = getattr(innermost(function), "__code__", None)
    first = code.co_varnames[0] if code and code.co_varnames else None
    return bool(owner) and not owner.endswith("<locals>") and first in ("self", "cls")


def build_tool(function: Callable[..., Any], **options: Unpack[ToolOptions]) -> Tool:
    """A tool of any callable: function, bound method, partial, object with ``__call__``.

    Options given to ``@tool`` before count where they are not given again.

    Raises:
        ToolRegistrationError: it cannot be a tool; names the tool, the parameter and the remedy.
    """
    merged: ToolOptions = {**_earlier_options(function), **options}
    name = merged.get("name", natural_name(function))
    override = merged.get("parameters")
    if override is None:
        signature = read_signature(function, name)
    else:
        signature = _context_only(function, name)
    _refuse_generators(function, name)
    docs = read_docstring(documentation(function), {p.name for p in signature.parameters})
    parameters, reader = _described(name, signature, docs.parameters, override)
    context = signature.context
    kind = context.type if context else None
    return Tool(
        name=name,
        description=merged.get("description", docs.description),
        parameters=parameters,
        function=function,
        reader=reader,
        effects=merged.get("effects", "idempotent"),
        timeout=merged.get("timeout", DEFAULT_TIMEOUT),
        max_calls=merged.get("max_calls"),
        max_repeats=merged.get("max_repeats"),
        max_observation=merged.get("max_observation"),
        cut=merged.get("cut", "head"),
        approval=merged.get("approval", False),
        labels=_texts("labels", merged.get("labels", ()), name),
        pause_policy=merged.get("pause_policy"),
        tags=_texts("tags", merged.get("tags", ()), name),
        context_type=kind,
        context_name=context.name if context else None,
        context_optional=bool(context and context.optional),
        is_async=_is_async(function),
        place=place_of(function, name, kind, override) if merged.get("isolate") else None,
        origin=origin_of(function),
    )


def _earlier_options(function: Callable[..., Any]) -> ToolOptions:
    while isinstance(function, partial):
        function = function.func
    options: ToolOptions | None = getattr(function, _OPTIONS, None)
    return options or {}


def _described(
    name: str, signature: Signature, docs: Mapping[str, str], override: Mapping[str, Any] | None
) -> tuple[Schema, Reader]:
    if override is not None:
        if override.get("type") != "object":
            raise ToolRegistrationError(f"tool {name!r}: its parameters must be of type object")
        hidden = [signature.context.name] if signature.context else []
        return dict(override), SchemaReader(override, hidden)
    model = build_model(name, signature.parameters, docs)
    schema = model_schema(model, signature.parameters)
    return schema, ParameterReader(model, signature, schema)


def _context_only(function: Callable[..., Any], name: str) -> Signature:
    """Of a function whose schema is given, only the hidden context matters."""
    found = inspect.signature(function)
    kept = [p for p in found.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]

    def stand_in() -> None: ...

    stand_in.__signature__ = found.replace(parameters=kept)  # type: ignore[attr-defined]
    stand_in.__wrapped__ = function  # type: ignore[attr-defined]
    read = read_signature(stand_in, name)
    return Signature((), read.context, frozenset())


def _refuse_generators(function: Callable[..., Any], name: str) -> None:
    inner = innermost(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ToolRegistrationError(f"tool {name!r}: it yields its results; return a list of them")


def _texts(option: str, texts: Collection[str], name: str) -> tuple[str, ...]:
    if isinstance(texts, str):
        raise ToolRegistrationError(
            f"tool {name!r}: write {option}=({texts!r},), a collection of texts"
        )
    return tuple(texts)


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = function.func
    called = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(called)


def origin_of(function: Callable[..., Any]) -> str:
    """``"module:qualname"`` of the function behind a callable."""
    inner = innermost(function)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    return f"{getattr(inner, '__module__', '?')}:{name}"


def as_tool(item: Callable[..., Any] | Tool) -> Tool:
    """The tool that an agent author named: a ``Tool``, a decorated function, or any callable.

    Raises:
        ToolRegistrationError: it cannot be a tool.
    """
    if isinstance(item, Tool):
        return item
    if not callable(item):
        raise ToolRegistrationError(f"{item!r} is neither a function nor a Tool")
    attached: Tool | None = getattr(item, _TOOL, None)
    # A wrapper made by functools.wraps carries the tool of the function that it wraps.
    return attached if attached is not None and attached.function is item else build_tool(item)
