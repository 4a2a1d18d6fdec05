"""The sessions of this process: one a server, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from worker.mcp.servers import Server
from worker.mcp.session import Session

T = TypeVar("T")
CLOSE_S = 10.0


class Hub:
    """Runs what sessions do, for threads that wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._sessions: dict[int, tuple[Server, Session]] = {}

    def ask(self, server: Server, what: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        """Wait for something that a server's session does.

        Raises:
            Whatever that raises.
        """
        return self._run(self._with_session(server, what))

    def once(self, server: Server, what: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        """The same with a session that is ended afterwards.

        What is asked while a program starts must leave nothing behind, neither a connection nor a
        thread: a process that forks later would hand them on to all of its children.
        """

        async def ask() -> T:
            session = Session(server)
            try:
                return await what(session)
            finally:
                await session.close()

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, ask()).result()

    async def _with_session(
        self, server: Server, what: Callable[[Session], Coroutine[Any, Any, T]]
    ) -> T:
        # By identity: what two servers are given need not be hashable, nor be shared.
        if id(server) not in self._sessions:
            self._sessions[id(server)] = (server, Session(server))
        return await what(self._sessions[id(server)][1])

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._running()).result()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="stepkeeper-mcp", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """End every session and the thread; the next call begins anew."""
        with self._lock:
            loop, thread = self._loop, self._thread
            sessions = [session for _, session in self._sessions.values()]
            self._sessions, self._loop, self._thread = {}, None, None
        if loop is None or thread is None:
            return

        async def end_all() -> None:
            await asyncio.gather(*(session.close() for session in sessions))

        asyncio.run_coroutine_threadsafe(end_all(), loop).result(CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_S)
        loop.close()


_hub = Hub()


def hub() -> Hub:
    """The sessions of this process."""
    return _hub


def close() -> None:
    """End this process's sessions, and the servers that were started for them."""
    _hub.close()


def _fresh_after_fork() -> None:
    # Neither the thread nor the right to the connections survives a fork.
    global _hub
    _hub = Hub()


os.register_at_fork(after_in_child=_fresh_after_fork)
atexit.register(close)
