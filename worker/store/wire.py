"""The hot path's way to Redis: calls of one script, packed here, on connections kept for them.

For each command redis-py borrows a connection, looks whether it is alive, encodes, times and
gives it back; that takes several times as long as the server does. Here a connection is taken
from its pool once and used until it breaks. What goes wrong is told by redis-py's own errors, and
the caller then asks again by the general way, which knows what to do about each of them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from api_client.connection import Client

LINE = "\r\n"
MOST_IDLE = 16
"""Connections that are kept; more than these go back to the pool, for whoever else needs one."""

_CORK: int | None = getattr(socket, "TCP_CORK", None)
_TCP = (socket.AF_INET, socket.AF_INET6)


class Head:
    """The beginning of a command, the same at each call: packed once.

    Args:
        words: the command's name, the script's digest, the number of keys, the keys …
    """

    __slots__ = ("_count", "_text")

    def __init__(self, words: Sequence[str]) -> None:
        self._count = len(words)
        self._text = "".join(map(_packed, words))

    def packed(self, args: Sequence[str | bytes]) -> bytes:
        """The whole command in Redis's protocol; ``args`` are bytes, or texts for UTF-8."""
        if bytes in map(type, args):
            return self._packed_bytes(args)
        rest = "".join([_packed(arg) for arg in args])  # type: ignore[arg-type]  # no bytes here
        return f"*{self._count + len(args)}{LINE}{self._text}{rest}".encode()

    def _packed_bytes(self, args: Sequence[str | bytes]) -> bytes:
        """The same where an argument is no text."""
        head = f"*{self._count + len(args)}{LINE}{self._text}".encode()
        words = [arg if isinstance(arg, bytes) else arg.encode() for arg in args]
        return head + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _packed(word: str) -> str:
    size = len(word) if word.isascii() else len(word.encode())
    return f"${size}{LINE}{word}{LINE}"


class Wire:
    """Connections of a client's pool that are kept for short calls; for several threads.

    Args:
        client: a redis-py client; its pool connects, authenticates and finds the primary.
        script: the text of the one that is called; each new connection makes sure that the server
            has it, so that what was sent is executed even if nobody is left to send it again.
    """

    def __init__(self, client: Client, script: str = "return 0") -> None:
        self._pool = client.connection_pool
        self._idle: list[Any] = []
        self._load = Head(["SCRIPT", "LOAD", script]).packed(())

    def send(self, command: bytes, *, hold: bool = False) -> Lane:
        """Send a packed command, and do not wait for its answer; more may follow in the lane.

        Args:
            hold: another one follows soon: the kernel may keep this one back for it, for a fifth of
                a second at most, and sends it at once should this process die.

        Raises:
            RedisError: redis-py's own; perhaps it was sent, perhaps not.
        """
        lane = Lane(self, self._take())
        lane.send(command, hold)
        return lane

    def _take(self) -> Any:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if connection.pid == os.getpid():  # a parent's connections are not ours
                return connection
        return self._new()

    def _new(self) -> Any:
        connection = self._pool.get_connection()
        try:
            connection.send_packed_command([self._load])
            with suppress(ResponseError):  # not allowed to: the general way is
                connection.read_response()
        except BaseException:
            self.drop(connection)
            raise
        return connection

    def put_back(self, connection: Any) -> None:
        """Keep a connection for the next call, unless its pool has turned to another server."""
        if not self._pool.owns_connection(connection):
            self.drop(connection)
        elif len(self._idle) < MOST_IDLE:
            self._idle.append(connection)
        else:
            self._pool.release(connection)

    def drop(self, connection: Any) -> None:
        """Give a connection back to its pool, closed: nobody knows what is still to come on it."""
        connection.disconnect()
        self._pool.release(connection)


class Lane:
    """A connection while answers are to come on it, in the order of the commands.

    Whoever does not wait for all of them loses the connection to it.
    """

    __slots__ = ("_connection", "_corked", "_open", "_wire")

    def __init__(self, wire: Wire, connection: Any) -> None:
        self._wire = wire
        self._connection = connection
        self._corked: socket.socket | None = None
        self._open = 0

    def send(self, command: bytes, hold: bool) -> None:
        """Send one more command; ``RedisError`` if that fails, or has failed."""
        connection = self._whole()
        try:
            if hold:
                self._cork(connection)
            connection.send_packed_command([command])
            if not hold:
                self._uncork()
        except BaseException:
            self.close()
            raise
        self._open += 1

    def _cork(self, connection: Any) -> None:
        """Let the kernel wait for more, where it can: on a plain TCP connection on Linux."""
        plain = getattr(connection, "_sock", None)  # redis-py has no public name for it
        if _CORK is not None and type(plain) is socket.socket and plain.family in _TCP:
            plain.setsockopt(socket.IPPROTO_TCP, _CORK, 1)
            self._corked = plain

    def _uncork(self) -> None:
        corked, self._corked = self._corked, None
        if corked is not None and _CORK is not None:
            with suppress(OSError):  # it is closed: reading from it will say so
                corked.setsockopt(socket.IPPROTO_TCP, _CORK, 0)

    def read(self) -> Any:
        """The next answer; ``RedisError`` if it is a refusal, or will never come."""
        connection = self._whole()
        self._uncork()
        try:
            return connection.read_response()
        except ResponseError:
            raise
        except BaseException:
            self.close()
            raise
        finally:
            self._open -= 1
            if not self._open and self._connection is not None:
                self._connection = None
                self._wire.put_back(connection)

    def _whole(self) -> Any:
        if self._connection is None:
            raise RedisConnectionError("the connection is gone")
        return self._connection

    def close(self) -> None:
        """Drop the connection: its answers are lost."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._wire.drop(connection)

    def __del__(self) -> None:
        self.close()
