"""The hot path's way to Redis: calls of one script, packed here, on connections kept for them.

For each command redis-py borrows a connection, looks whether it is alive, encodes, times, reads
through buffers and gives it back; that takes several times as long as the server does. Here a
connection is taken from its pool once and used until it breaks, and its socket is written and read
directly. What goes wrong is told by redis-py's own errors, and the caller then asks again by the
general way, which knows what to do about each of them.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from api_client.connection import Client

LINE = b"\r\n"
MOST_IDLE = 16
"""Connections that are kept; more than these go back to the pool, for whoever else needs one."""

_MORE: int = getattr(socket, "MSG_MORE", 0)
_TCP = (socket.AF_INET, socket.AF_INET6)
_AT_ONCE = 4096
"""Bytes that are read at once: an answer has a few."""


class Head:
    """The beginning of a command, the same at each call: packed once.

    Args:
        words: the command's name, the script's digest, the number of keys, the keys …
    """

    __slots__ = ("_count", "_words")

    def __init__(self, words: Sequence[str]) -> None:
        self._count = len(words)
        self._words = _packed([word.encode() for word in words])

    def packed(self, args: Sequence[bytes]) -> bytes:
        """The whole command in Redis's protocol."""
        return b"*%d\r\n%b%b" % (self._count + len(args), self._words, _packed(args))


def _packed(words: Sequence[bytes]) -> bytes:
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


class Wire:
    """Connections of a client's pool that are kept for short calls; for several threads.

    Args:
        client: a redis-py client; its pool connects, authenticates and finds the primary.
        script: the text of the one that is called, which returns a number; each new connection
            makes sure that the server has it, so that what was sent is executed even if nobody is
            left to send it again.
    """

    def __init__(self, client: Client, script: str = "return 0") -> None:
        self._pool = client.connection_pool
        self._idle: list[Strand] = []
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

    def _take(self) -> Strand:
        while self._idle:
            try:
                strand = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if strand.connection.pid == os.getpid():  # a parent's connections are not ours
                return strand
        return self._new()

    def _new(self) -> Strand:
        connection = self._pool.get_connection()
        try:
            connection.send_packed_command([self._load])
            with suppress(ResponseError):  # not allowed to: the general way is
                connection.read_response()
            return Strand(connection)
        except BaseException:
            self._drop(connection)
            raise

    def put_back(self, strand: Strand) -> None:
        """Keep a connection for the next call, unless its pool has turned to another server."""
        connection = strand.connection
        if not self._pool.owns_connection(connection):
            self._drop(connection)
        elif len(self._idle) < MOST_IDLE:
            self._idle.append(strand)
        else:
            self._pool.release(connection)

    def drop(self, strand: Strand) -> None:
        """Give a connection back to its pool, closed: nobody knows what is still to come on it."""
        self._drop(strand.connection)

    def _drop(self, connection: Any) -> None:
        connection.disconnect()
        self._pool.release(connection)


class Strand:
    """A connection's socket, written and read directly.

    Args:
        connection: redis-py's, connected, with no answer to come.
    """

    __slots__ = ("_held", "_more", "_read", "_socket", "connection")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._socket: socket.socket = connection._sock  # it has no public name
        # Only the kernel's own TCP holds back what more is to follow: TLS refuses the flag.
        plain = self._socket.family in _TCP and not isinstance(self._socket, ssl.SSLSocket)
        self._more = _MORE if plain else 0
        self._held = False
        self._read = b""

    def send(self, command: bytes, hold: bool) -> None:
        """Send; ``RedisError`` if that fails."""
        self._held = hold and self._more != 0
        try:
            self._socket.sendall(command, self._more if hold else 0)
        except TimeoutError as error:
            raise RedisTimeoutError("the server takes nothing") from error
        except OSError as error:
            raise RedisConnectionError(f"cannot send: {error}") from error

    def read(self) -> int:
        """The next answer; ``RedisError`` if it is a refusal, or will never come."""
        if self._held:
            self._push()
        while (end := self._read.find(LINE)) < 0:
            self._read += self._receive()
        line, self._read = self._read[:end], self._read[end + len(LINE) :]
        if line.startswith(b":"):
            return int(line[1:])
        if line.startswith(b"-"):
            raise ResponseError(line[1:].decode(errors="replace"))
        raise RedisConnectionError("the server answered a script with something that is no number")

    def _push(self) -> None:
        """Nothing follows: let the kernel send what it holds back."""
        self._held = False
        with suppress(OSError):  # it is closed: reading from it will say so
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(_AT_ONCE)
        except TimeoutError as error:
            raise RedisTimeoutError("no answer in time") from error
        except OSError as error:
            raise RedisConnectionError(f"cannot read: {error}") from error
        if not data:
            raise RedisConnectionError("the server has closed the connection")
        return data


class Lane:
    """A connection while answers are to come on it, in the order of the commands.

    Whoever does not wait for all of them loses the connection to it.
    """

    __slots__ = ("_open", "_strand", "_wire")

    def __init__(self, wire: Wire, strand: Strand) -> None:
        self._wire = wire
        self._strand: Strand | None = strand
        self._open = 0

    def send(self, command: bytes, hold: bool) -> None:
        """Send one more command; ``RedisError`` if that fails, or has failed."""
        strand = self._whole()
        try:
            strand.send(command, hold)
        except BaseException:
            self.close()
            raise
        self._open += 1

    def read(self) -> int:
        """The next answer; ``RedisError`` if it is a refusal, or will never come."""
        strand = self._whole()
        try:
            return strand.read()
        except ResponseError:
            raise
        except BaseException:
            self.close()
            raise
        finally:
            self._open -= 1
            if not self._open and self._strand is not None:
                self._strand = None
                self._wire.put_back(strand)

    def _whole(self) -> Strand:
        if self._strand is None:
            raise RedisConnectionError("the connection is gone")
        return self._strand

    def close(self) -> None:
        """Drop the connection: its answers are lost."""
        strand, self._strand = self._strand, None
        if strand is not None:
            self._wire.drop(strand)

    def __del__(self) -> None:
        self.close()
