"""Where an MCP server is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO
from urllib.parse import urlsplit

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from worker.errors import ToolRegistrationError

_CONNECT_S = 10.0
_WRITE_S = 30.0


@dataclass(frozen=True)
class Stdio:
    """A program that is started, and spoken to over its standard input and output.

    Attributes:
        command: the program; found on ``PATH``.
        args: its arguments.
        env: variables besides ``PATH``, ``HOME`` and the like: it gets no others of the worker's.
        cwd: its working directory.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | os.PathLike[str] | None = None

    def __str__(self) -> str:
        return " ".join([self.command, *self.args])

    @asynccontextmanager
    async def transport(self) -> Any:
        """Start it; it is ended with the block."""
        parameters = StdioServerParameters(
            command=self.command,
            args=list(self.args),
            env=dict(self.env),
            cwd=None if self.cwd is None else os.fspath(self.cwd),
        )
        with _standard_error() as errors:
            async with stdio_client(parameters, errors) as streams:
                yield streams


@dataclass(frozen=True)
class Http:
    """A server that is there already, spoken to over streamable HTTP.

    Attributes:
        url: of its endpoint, such as ``https://host/mcp``.
        headers: of every request, such as its authorization.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @asynccontextmanager
    async def transport(self) -> Any:
        """Connect to it; the session is given up with the block."""
        # Reading has no limit of its own: an answer may take as long as its call may.
        timeout = httpx2.Timeout(_WRITE_S, connect=_CONNECT_S, read=None)
        async with (
            httpx2.AsyncClient(headers=dict(self.headers), timeout=timeout) as client,
            streamable_http_client(self.url, http_client=client) as streams,
        ):
            yield streams


Server = Stdio | Http
Transport = AbstractAsyncContextManager[Any]


def as_server(given: Server | str | Sequence[str]) -> Server:
    """A server out of what is convenient to write: a URL, or a command with its arguments.

    Raises:
        ToolRegistrationError: it is neither.
    """
    if isinstance(given, Stdio | Http):
        return given
    if isinstance(given, str) and urlsplit(given).scheme in ("http", "https"):
        return Http(given)
    if isinstance(given, str) or not given or not all(isinstance(word, str) for word in given):
        raise ToolRegistrationError(
            f"MCP server {given!r}: give a URL (http://host/mcp), a command with its arguments as "
            "a list, or worker.mcp.Stdio or Http"
        )
    return Stdio(given[0], tuple(given[1:]))


@contextmanager
def _standard_error() -> Iterator[TextIO]:
    """Where a started server may complain: the worker's own log, if it has one."""
    stream = sys.__stderr__
    if stream is not None and not stream.closed:
        yield stream
        return
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - it is no path of anybody's
        yield nowhere
