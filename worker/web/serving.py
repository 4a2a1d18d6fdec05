"""Running the server in this process until a signal ends it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from ipaddress import ip_address

import uvicorn
from starlette.concurrency import run_in_threadpool

from api_client.errors import InvalidInput
from worker.web.app import create_app
from worker.web.parts import Parts

GRACE_S = 10
"""Seconds that requests get to end after the first signal."""


class _Server(uvicorn.Server):
    """Says where it listens, and lets followers of streams go before it waits for requests."""

    def __init__(self, config: uvicorn.Config, parts: Parts, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._parts = parts
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See ``uvicorn.Server``."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See ``uvicorn.Server``."""
        await run_in_threadpool(self._parts.tail.close)
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any that is free.

    Raises:
        InvalidInput: the address is not ours, or is taken.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInput(
            f"cannot listen on {host}:{port} ({reason}); give another --host or --port"
        ) from None


def url_of(listening: socket.socket) -> str:
    """How a browser on this machine reaches a listening socket."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def is_loopback(listening: socket.socket) -> bool:
    """Whether only programs on this machine can reach it."""
    return ip_address(listening.getsockname()[0]).is_loopback


def serve(
    parts: Parts,
    listening: socket.socket,
    ready: Callable[[], None],
    *,
    proxies: str = "",
    log_level: str = "info",
) -> None:
    """Serve until SIGTERM or SIGINT, then let requests end.

    Args:
        ready: called when requests are taken.
        proxies: addresses whose ``X-Forwarded-…`` headers are believed, comma separated.
    """
    config = uvicorn.Config(
        create_app(parts),
        lifespan="on",
        log_config=None,
        log_level=log_level,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies or None,
        timeout_graceful_shutdown=GRACE_S,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again at its end, when everything is done.
        signal.signal(number, lambda *_: None)
    _Server(config, parts, ready).run(sockets=[listening])
