"""An HTTP transport with an end: no call takes longer than its deadline, however it is fed.

The timeouts of the SDKs' HTTP client count the silence between two bytes, so a server that sends
one byte a minute is never too late for them. Here every wait on the socket, from the connection
to the last byte of the body, is cut down to what is left of the whole call's time.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from ssl import SSLContext
from typing import Any
from urllib.parse import unquote, urlsplit

import httpcore2
import httpx2

_deadline: ContextVar[float | None] = ContextVar("deadline of the model call", default=None)


@contextmanager
def ends_after(seconds: float) -> Iterator[None]:
    """Every call through a `DeadlineTransport` inside the block ends ``seconds`` from now."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def _shorten(timeout: float | None, late: type[Exception]) -> float | None:
    """The timeout, or what is left of the call if that is less; raises ``late`` if nothing is."""
    deadline = _deadline.get()
    if deadline is None:
        return timeout
    left = deadline - time.monotonic()
    if left <= 0:
        raise late("the call's time is over")
    return left if timeout is None else min(timeout, left)


class _Stream(httpcore2.NetworkStream):
    """A socket whose every wait ends with the call."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _shorten(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _shorten(timeout, httpcore2.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        left = _shorten(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore2.SyncBackend):
    """Connects, and wraps what it connected."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        left = _shorten(timeout, httpcore2.ConnectTimeout)
        return _Stream(super().connect_tcp(host, port, left, local_address, socket_options))


class _Body(httpx2.SyncByteStream):
    """The body of an answer, with errors in the words of the layer above."""

    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        with _translated():
            yield from self._stream

    def close(self) -> None:
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()


@contextmanager
def _translated() -> Iterator[None]:
    """Turn the lower layer's errors into those of the same name in the upper one."""
    try:
        yield
    except (
        httpcore2.TimeoutException,
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.ProxyError,
        httpcore2.UnsupportedProtocol,
    ) as error:
        kind = getattr(httpx2, type(error).__name__, httpx2.TransportError)
        raise kind(str(error)) from error


class DeadlineTransport(httpx2.BaseTransport):
    """HTTP/1.1 to one server, directly or through the proxy that the environment names.

    Args:
        base_url: of the server; decides about the proxy.
        max_connections: open at most, in use or kept; a call beyond them waits for one.
        kept_open: seconds that an idle connection is kept.
    """

    def __init__(self, base_url: str, max_connections: int, kept_open: float) -> None:
        settings: dict[str, Any] = {
            "ssl_context": httpx2.create_ssl_context(),
            "max_connections": max_connections,
            "max_keepalive_connections": max_connections,
            "keepalive_expiry": kept_open,
            "network_backend": _Backend(),
        }
        self._pool = _pool(proxy_for(base_url), settings)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; what comes back streams its body."""
        assert isinstance(request.stream, httpx2.SyncByteStream)
        url = request.url
        with _translated():
            answer = self._pool.handle_request(
                httpcore2.Request(
                    method=request.method,
                    url=httpcore2.URL(
                        scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        assert isinstance(answer.stream, Iterable)
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(answer.stream),
            extensions=answer.extensions,
        )

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()


def _pool(proxy: str | None, settings: dict[str, Any]) -> httpcore2.ConnectionPool:
    """The connections to the server, through the proxy if there is one."""
    if proxy is None:
        return httpcore2.ConnectionPool(**settings)
    parts = urlsplit(proxy)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    user = (unquote(parts.username or ""), unquote(parts.password or ""))
    kind = httpcore2.SOCKSProxy if parts.scheme.startswith("socks") else httpcore2.HTTPProxy
    return kind(place, proxy_auth=user if any(user) else None, **settings)


def proxy_for(base_url: str) -> str | None:
    """The URL of the proxy that the environment names for this server, None if it names none."""
    parts = urlsplit(base_url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"
