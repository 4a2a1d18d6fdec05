"""A TCP proxy on loopback with the troubles of real networks."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self

_CHUNK = 65_536


class _Connection:
    """One client's connection and the one to the server behind it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._swallow = False
        self.mute = proxy.silent
        for target in (self._to_server, self._to_client):
            threading.Thread(target=target, daemon=True).start()

    def _to_server(self) -> None:
        while data := _read(self._client):
            if self.mute:
                continue
            if self._proxy.takes(data):
                self._swallow = True
            if not _write(self._server, data):
                break
        self.close()

    def _to_client(self) -> None:
        while data := _read(self._server):
            if self._swallow:
                self._proxy.swallowed.set()
                break
            if not self.mute and not _write(self._client, data):
                break
        if not self.mute:
            self.close()

    def close(self) -> None:
        """End both halves."""
        for end in (self._client, self._server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:  # the other half has ended it already
                end.close()
            else:
                end.close()


def _read(end: socket.socket) -> bytes:
    try:
        return end.recv(_CHUNK)
    except OSError:
        return b""


def _write(end: socket.socket, data: bytes) -> bool:
    try:
        end.sendall(data)
    except OSError:
        return False
    return True


class Proxy:
    """Stands in front of a server on loopback.

    Args:
        port: the server's.

    Attributes:
        silent: new connections are accepted and then never answered.
        swallowed: set when the reply that ``swallow_reply`` asked for has been swallowed.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock = threading.Lock()
        self._pattern = b""
        self._connections: list[_Connection] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.silent = False
        self.swallowed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    @property
    def port(self) -> int:
        """Where clients connect to."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """The Redis URL through this proxy."""
        return f"redis://127.0.0.1:{self.port}/0"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._connections.append(_Connection(self, client, server))

    def _take_connections(self) -> list[_Connection]:
        with self._lock:
            taken, self._connections = self._connections, []
        return taken

    def cut(self) -> None:
        """End every connection there is; new ones work."""
        for connection in self._take_connections():
            connection.close()

    def silence(self) -> None:
        """The connections stay open, and nothing passes any more, as when a router forgets them.

        New ones are as silent until ``heal``; the old ones stay so for good.
        """
        with self._lock:
            self.silent = True
            for connection in self._connections:
                connection.mute = True

    def heal(self) -> None:
        """New connections work again."""
        self.silent = False

    def swallow_reply(self, pattern: bytes) -> None:
        """Let the next request with these bytes through, and cut in place of its reply."""
        self.swallowed.clear()
        self._pattern = pattern

    def takes(self, data: bytes) -> bool:
        """Whether this request is the one whose reply is to be swallowed."""
        if not self._pattern or self._pattern not in data:
            return False
        self._pattern = b""
        return True
