"""The tools of one agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from worker.context import ActionContext
from worker.errors import ToolRegistrationError
from worker.tools.base import Tool
from worker.tools.build import as_tool
from worker.tools.forms import Schema
from worker.tools.signature import innermost


class ToolBox:
    """Tools in the order in which they were given, each name once.

    Args:
        tools: functions and tools, mixed.

    Raises:
        ToolRegistrationError: two different functions have one name; names both places.
    """

    def __init__(self, tools: Iterable[Callable[..., Any] | Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._schemas: dict[tuple[bool | None, bool], list[Schema]] = {}
        for item in tools:
            self.add(item)

    def add(self, item: Callable[..., Any] | Tool) -> Tool:
        """Add a tool and return it; the same function again changes nothing.

        Raises:
            ToolRegistrationError: the name is taken by another function, or by the same function
                with other options.
        """
        tool = as_tool(item)
        there = self._tools.get(tool.name)
        if there is None:
            self._tools[tool.name] = tool
            self._schemas.clear()
            return tool
        if not _same_function(there, tool):
            raise ToolRegistrationError(
                f"two tools are called {tool.name!r}: {there.origin} and {tool.origin}; "
                "give one of them another name with name=..."
            )
        if _options(there) != _options(tool):
            raise ToolRegistrationError(
                f"tool {tool.name!r} ({tool.origin}) is given twice with different options"
            )
        return there

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or None."""
        return self._tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order."""
        return tuple(self._tools)

    def schemas(self, strict: bool | None = None, *, inline: bool = False) -> list[Schema]:
        """The schemas of all tools, as ``Tool.schema`` makes them; not to be changed."""
        key = (strict, inline)
        if key not in self._schemas:
            self._schemas[key] = [t.schema(strict, inline=inline) for t in self._tools.values()]
        return list(self._schemas[key])

    def tagged(self, *tags: str) -> ToolBox:
        """A box with the tools that have at least one of these tags."""
        return ToolBox(tool for tool in self._tools.values() if set(tags) & set(tool.tags))

    def check_context(self, given: type[ActionContext] | None) -> None:
        """Make sure that a context of class ``given`` serves every tool.

        Raises:
            ToolRegistrationError: it does not; names the tool and both classes.
        """
        for tool in self._tools.values():
            wanted = tool.context_type
            if wanted in (None, ActionContext) or (given is not None and issubclass(given, wanted)):
                continue
            if given is None and tool.context_optional:
                continue
            offered = f"gives a {given.__name__}" if given else "has no context"
            raise ToolRegistrationError(
                f"tool {tool.name!r} needs a context of class {wanted.__name__}, but the agent "
                f"{offered}; give one of a class that inherits from all that its tools need"
            )

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools


def _same_function(one: Tool, other: Tool) -> bool:
    if one.function == other.function:
        return True
    first, second = _source(one.function), _source(other.function)
    return first is not None and first == second


def _source(function: Callable[..., Any]) -> tuple[str, int, str] | None:
    """Where a module-level function is written: a module imported twice makes two of each."""
    if innermost(function) is not function or getattr(function, "__closure__", None):
        return None
    code = getattr(function, "__code__", None)
    return (code.co_filename, code.co_firstlineno, function.__qualname__) if code else None


def _options(tool: Tool) -> tuple[Any, ...]:
    return (
        tool.description, tool.parameters, tool.effects, tool.timeout, tool.max_calls,
        tool.max_repeats,
        tool.max_observation, tool.cut, tool.tags, tool.isolate, tool.role,
    )  # fmt: skip
