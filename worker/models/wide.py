"""Thousands of connections of one client: spread over pools that each know few.

A connection pool looks at all of its connections for each request and each answer. With one pool,
two thousand calls at once cost more time than everything else that is done for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

POOL_SIZE = 50
"""Connections of one pool."""


class WideTransport(httpx2.AsyncBaseTransport):
    """A transport over as many pools as it takes; a request goes to the one with the least to do.

    Args:
        max_connections: of all pools together.
        kept_open: seconds that an idle connection is kept.
        proxy: URL of the proxy to the server, ``None`` for none.
    """

    def __init__(self, max_connections: int, kept_open: float, proxy: str | None) -> None:
        self._pools = [
            _Pool(min(POOL_SIZE, max_connections - begin), kept_open, proxy)
            for begin in range(0, max_connections, POOL_SIZE)
        ]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; what comes back streams its body."""
        return await min(self._pools, key=lambda pool: pool.busy).send(request)

    async def aclose(self) -> None:
        """Close every connection."""
        for pool in self._pools:
            await pool.transport.aclose()


class _Pool:
    """One pool, and how many requests it works on."""

    def __init__(self, connections: int, kept_open: float, proxy: str | None) -> None:
        self.busy = 0
        limits = httpx2.Limits(
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=kept_open,
        )
        self.transport = httpx2.AsyncHTTPTransport(limits=limits, proxy=proxy)

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        self.busy += 1
        try:
            response = await self.transport.handle_async_request(request)
        except BaseException:
            self.busy -= 1
            raise
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Body(response.stream, self)
        return response

    def done(self) -> None:
        """The body of an answer has been read, or given up."""
        self.busy -= 1


class _Body(httpx2.AsyncByteStream):
    """The body of an answer; its pool has less to do when it is closed."""

    def __init__(self, inner: httpx2.AsyncByteStream, pool: _Pool) -> None:
        self._inner = inner
        self._pool: _Pool | None = pool

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            yield piece

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.done()
        await self._inner.aclose()
