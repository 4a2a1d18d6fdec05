"""Where an adapter keeps its HTTP clients: one for the threads of a process, one per event loop.

A client's connections must not be shared by two processes, nor by two event loops. So a forked
child starts with none, and a loop's client is closed with its loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Generic, Protocol, TypeVar


class Closing(Protocol):
    """A client for threads."""

    def close(self) -> None:
        """Close the connections."""
        ...  # pragma: no cover


class AsyncClosing(Protocol):
    """A client for one event loop."""

    async def close(self) -> None:
        """Close the connections."""
        ...  # pragma: no cover


Sync = TypeVar("Sync", bound=Closing)
Async = TypeVar("Async", bound=AsyncClosing)

_all: weakref.WeakSet[Clients[Closing, AsyncClosing]] = weakref.WeakSet()


class Clients(Generic[Sync, Async]):
    """Makes clients when they are first needed, and finds them again.

    Args:
        make: makes the client that all threads share.
        make_async: makes one for the running event loop.
    """

    def __init__(self, make: Callable[[], Sync], make_async: Callable[[], Async]) -> None:
        self._make = make
        self._make_async = make_async
        self.forget()
        _all.add(self)  # type: ignore[arg-type]  # the set only ever calls forget()

    def forget(self) -> None:
        """Start anew without closing anything: what is open belongs to the parent process."""
        self._lock = threading.Lock()
        self._client: Sync | None = None
        self._by_loop: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[Async, AsyncGenerator[None]]
        ] = weakref.WeakKeyDictionary()

    def get(self) -> Sync:
        """The client of this process."""
        if self._client is None:
            with self._lock:
                if self._client is None:
                    self._client = self._make()
        return self._client

    async def get_async(self) -> Async:
        """The client of the running event loop; it is closed when the loop shuts down."""
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            client = self._make_async()
            keeper = _close_with_the_loop(client)
            self._by_loop[loop] = (client, keeper)
            # A started generator is ended by `loop.shutdown_asyncgens`, as asyncio.run does.
            await anext(keeper)
        return self._by_loop[loop][0]

    def close(self) -> None:
        """Close the threads' client; the next call makes a new one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the running loop's client; the next call makes a new one."""
        entry = self._by_loop.pop(asyncio.get_running_loop(), None)
        if entry is not None:
            await entry[1].aclose()


async def _close_with_the_loop(client: AsyncClosing) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await client.close()


def _forget_all() -> None:
    for clients in list(_all):
        clients.forget()


os.register_at_fork(after_in_child=_forget_all)
