"""A server's list of tools, each made a tool of an agent."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp import MCPError
from mcp.types import Tool as Listed
from pydantic import ValidationError

from worker.context import current_call
from worker.errors import ToolFailed, ToolRegistrationError
from worker.mcp.hub import hub
from worker.mcp.reader import JsonSchemaReader
from worker.mcp.results import ToolError, value_of
from worker.mcp.servers import Server, as_server
from worker.mcp.session import Gone, Late, Session, Unreachable
from worker.tools import Tool
from worker.tools.base import DEFAULT_TIMEOUT, Effects
from worker.tools.isolate import Died
from worker.tools.threads import TimedOut

IDEMPOTENCY_KEY = "stepkeeper/idempotency-key"
"""The field of a call's ``_meta`` with the key that is the same at each execution of a call."""

_OWN_SHARE = 0.95
"""Of a tool's time, so that the server hears of the timeout before the model does."""


def mcp_tools(
    server: Server | str | Sequence[str],
    *,
    effects: Mapping[str, Effects] | None = None,
    default_effects: Effects = "idempotent",
    prefix: str = "",
    only: Collection[str] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> list[Tool]:
    """The tools of an MCP server, as it lists them now.

    The server is asked once, while the agent is defined. In the worker each process has a session
    of its own, from the first call on; a server that has ended is started again, or connected to
    again, at the next call.

    Args:
        server: a URL (streamable HTTP), a command with its arguments (stdio), or a ``Stdio`` or
            ``Http``.
        effects: by the server's names for its tools: ``"safe"``, ``"idempotent"`` or ``"once"``.
            What a server says of its tools itself is no promise.
        default_effects: of all others.
        prefix: put before each name, for servers whose tools are called alike.
        only: the server's names of those that are wanted; all of them, if not given.
        timeout: seconds for a call.

    Raises:
        ToolRegistrationError: the server cannot be reached, lists no tool of a name given here, or
            a tool that cannot be offered to a model; names the server and the tool.
    """
    place = as_server(server)
    try:
        listed = hub().once(place, Session.tools)
    except Unreachable as error:
        raise ToolRegistrationError(
            f"MCP server {place}: cannot list its tools: {error}; check that it can be started "
            "or reached from here"
        ) from error
    named = {tool.name for tool in listed}
    _check_names(place, "effects", effects or {}, named)
    _check_names(place, "only", only or (), named)
    return [
        _tool(place, tool, (effects or {}).get(tool.name, default_effects), prefix, timeout)
        for tool in listed
        if only is None or tool.name in only
    ]


def _check_names(place: Server, argument: str, given: Collection[str], known: set[str]) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise ToolRegistrationError(
            f"MCP server {place}: {argument} names {', '.join(unknown)}; its tools are "
            f"{', '.join(sorted(known)) or 'none'}"
        )


def _tool(place: Server, listed: Listed, effects: Effects, prefix: str, timeout: float) -> Tool:
    schema = dict(listed.input_schema)
    origin = f"{place}:{listed.name}"
    if schema.get("type") != "object":
        raise ToolRegistrationError(f"tool {origin}: its input schema is not of type object")
    try:
        reader = JsonSchemaReader(schema)
    except ValueError as error:
        raise ToolRegistrationError(f"tool {origin}: no valid input schema: {error}") from error
    return Tool(
        name=re.sub(r"[^a-zA-Z0-9_-]", "_", prefix + listed.name),
        description=listed.description or listed.title or listed.name,
        parameters=schema,
        function=_Call(place, listed.name, timeout),
        reader=reader,
        effects=effects,
        timeout=timeout,
        tags=("mcp",),
        origin=origin,
    )


@dataclass(frozen=True)
class _Call:
    """Calls one tool of a server."""

    server: Server
    name: str
    timeout: float

    def __call__(self, **arguments: Any) -> Any:
        info = current_call.get()
        meta = {} if info is None else {IDEMPOTENCY_KEY: info.idempotency_key}
        seconds = self.timeout * _OWN_SHARE
        try:
            result = hub().ask(
                self.server, lambda session: session.call(self.name, arguments, seconds, meta)
            )
        except Late:
            raise TimedOut from None
        except Unreachable as error:
            raise ToolFailed(f"the tool's server cannot be reached: {error}") from error
        except Gone as error:
            raise Died("the connection to its server was lost") from error
        except MCPError as error:
            raise ToolError(error.message) from None
        except ValidationError as error:
            raise Died("its server gave an answer that cannot be read") from error
        return value_of(result)
