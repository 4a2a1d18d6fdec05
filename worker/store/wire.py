"""The hot path's way to Redis: calls of one script, packed here, on connections kept for them.

For each command redis-py borrows a connection, looks whether it is alive, encodes, times and
gives it back; that takes several times as long as the server does. Here a connection is taken
from its pool once and used until it breaks. What goes wrong is told by redis-py's own errors, and
the caller then asks again by the general way, which knows what to do about each of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from api_client.connection import Client

LINE = "\r\n"


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
    """

    def __init__(self, client: Client) -> None:
        self._pool = client.connection_pool
        self._idle: list[Any] = []

    def send(self, command: bytes) -> Sent:
        """Send a packed command, and do not wait for its answer.

        Raises:
            RedisError: redis-py's own; perhaps it was sent, perhaps not.
        """
        connection = self._take()
        try:
            connection.send_packed_command([command])
        except BaseException:
            self.drop(connection)
            raise
        return Sent(self, connection)

    def _take(self) -> Any:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if connection.pid == os.getpid():  # a parent's connections are not ours
                return connection
        return self._pool.get_connection()

    def put_back(self, connection: Any) -> None:
        """Keep a connection for the next call, unless its pool has turned to another server."""
        if self._pool.owns_connection(connection):
            self._idle.append(connection)
        else:
            self.drop(connection)

    def drop(self, connection: Any) -> None:
        """Give a connection back to its pool, closed: nobody knows what is still to come on it."""
        connection.disconnect()
        self._pool.release(connection)


class Sent:
    """A command on its way. Whoever does not wait for its answer loses the connection to it."""

    __slots__ = ("_connection", "_wire")

    def __init__(self, wire: Wire, connection: Any) -> None:
        self._wire = wire
        self._connection = connection

    def wait(self) -> Any:
        """The answer; to be asked for once.

        Raises:
            RedisError: redis-py's own: the server's refusal, or that nothing came.
        """
        connection, self._connection = self._connection, None
        try:
            answer = connection.read_response()
        except ResponseError:
            self._wire.put_back(connection)
            raise
        except BaseException:
            self._wire.drop(connection)
            raise
        self._wire.put_back(connection)
        return answer

    def __del__(self) -> None:
        if self._connection is not None:
            self._wire.drop(self._connection)
