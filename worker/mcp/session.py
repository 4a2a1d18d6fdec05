"""One server's session: begun when it is first needed, and again when it has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, cast

import anyio
from mcp import Client, MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    CallToolResult,
    Implementation,
    RequestParamsMeta,
    Tool,
)

from worker.mcp.servers import Server, Transport

log = logging.getLogger(__name__)

MODE = "auto"
"""How the version of the protocol is found out: the newest that both sides know."""

CONNECT_S = 30.0
"""Seconds for a server to start and to introduce itself."""

_MOST_PAGES = 1000


class Unreachable(Exception):
    """A session could not be begun; nothing was asked."""


class Gone(Exception):
    """The session ended during a call: nobody knows what became of it."""


class Late(Exception):
    """The server did not answer in time; it was told that the call is off."""


class _Forgotten(Exception):
    """The server does not know our session, as it was started anew; nothing was called."""


class Session:
    """Speaks to one server; everything here runs on one event loop."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._begin = asyncio.Lock()
        self._talk: _Talk | None = None

    async def call(
        self, name: str, arguments: dict[str, Any], seconds: float, meta: dict[str, Any]
    ) -> CallToolResult:
        """Call one tool.

        Args:
            seconds: for everything, the beginning of a session as well.
            meta: sent beside the arguments.

        Raises:
            Unreachable, Gone, Late: see there.
            MCPError: the server's own refusal.
        """
        ends = anyio.current_time() + seconds
        try:
            return await self._call(name, arguments, ends, meta)
        except _Forgotten:
            return await self._call(name, arguments, ends, meta)

    async def _call(
        self, name: str, arguments: dict[str, Any], ends: float, meta: dict[str, Any]
    ) -> CallToolResult:
        left = max(0.001, ends - anyio.current_time())
        talk = await self._talking(min(left, CONNECT_S))
        left = max(0.001, ends - anyio.current_time())
        try:
            return await talk.client.call_tool(
                name, arguments, left, meta=cast("RequestParamsMeta", meta)
            )
        except MCPError as error:
            raise self._understood(error, talk) from error

    async def tools(self) -> list[Tool]:
        """All tools of the server, page by page.

        Raises:
            Unreachable: or it does not list them.
        """
        talk = await self._talking(CONNECT_S)
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            try:
                page = await talk.client.list_tools(cursor=cursor)
            except MCPError as error:
                raise Unreachable(f"it does not list its tools: {error.message}") from error
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return found
        raise Unreachable(f"its list of tools has more than {_MOST_PAGES} pages")

    async def close(self) -> None:
        """End the session; the next call begins another."""
        talk, self._talk = self._talk, None
        if talk is not None:
            await talk.end()

    async def _talking(self, seconds: float) -> _Talk:
        async with self._begin:
            if self._talk is None or self._talk.over:
                await self.close()
                talk = _Talk(self._server)
                await talk.begin(seconds)
                self._talk = talk
            return self._talk

    def _understood(self, error: MCPError, talk: _Talk) -> Exception:
        """What an error means for the session."""
        if error.code == REQUEST_TIMEOUT:
            return Late()
        if error.code == CONNECTION_CLOSED:
            talk.over = True
            return Gone()
        if error.code == INVALID_REQUEST and "session" in error.message.lower():
            talk.over = True
            return _Forgotten()
        return error


class _Talk:
    """One connection, from its beginning to its end, held by a task of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ended = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self.over = False

    @property
    def client(self) -> Client:
        """To speak with, once `begin` has returned."""
        return self._client.result()

    async def begin(self, seconds: float) -> None:
        """Connect.

        Raises:
            Unreachable: in words for an operator.
        """
        self._task = asyncio.get_running_loop().create_task(self._hold())
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._client)
        except TimeoutError:
            await self.end()
            raise Unreachable(f"no answer within {seconds:g} s") from None
        except Exception as error:
            raise Unreachable(reason_of(error)) from error

    async def end(self) -> None:
        """Disconnect, and end a server that we have started."""
        self.over = True
        self._ended.set()
        if self._task is not None:
            if not self._client.done():
                self._task.cancel()
            await asyncio.wait([self._task])

    async def _hold(self) -> None:
        """The connection's whole life: a context must be left by the task that entered it."""
        about_us = Implementation(name="stepkeeper", version=version("stepkeeper"))
        transport = _watched(self._server.transport(), self._ended)
        try:
            async with Client(transport, client_info=about_us, cache=None, mode=MODE) as client:
                self._client.set_result(client)
                await self._ended.wait()
        except asyncio.CancelledError:
            self._fail(Unreachable("given up"))
        except Exception as error:  # noqa: BLE001 - any of the transports' errors, told or logged
            if not self._fail(error):
                log.warning("MCP server %s: %s", self._server, reason_of(error))
        finally:
            self.over = True

    def _fail(self, error: Exception) -> bool:
        """Tell whoever waits for the beginning; whether anybody does."""
        if self._client.done():
            return False
        self._client.set_exception(error)
        self._client.exception()  # it may be that nobody waits any more
        return True


@asynccontextmanager
async def _watched(transport: Transport, ended: asyncio.Event) -> AsyncIterator[Any]:
    """The same transport; the event is set when the server's side of it ends."""
    async with transport as (theirs, ours), anyio.create_task_group() as tasks:
        send, receive = anyio.create_memory_object_stream[Any](0)

        async def pass_on() -> None:
            async with send:
                async for message in theirs:
                    await send.send(message)
            ended.set()

        tasks.start_soon(pass_on)
        try:
            yield receive, ours
        finally:
            tasks.cancel_scope.cancel()
            receive.close()


def reason_of(error: BaseException) -> str:
    """An error in one line, also from inside a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())
    return text or type(error).__name__
