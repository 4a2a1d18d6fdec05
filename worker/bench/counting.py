"""What a client sent and a server counted: the same on every machine."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

from redis.connection import Connection

from api_client.connection import Client


class CountingSocket(socket.socket):
    """A socket that counts what all of its kind send: each time is one round trip."""

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send one command, or one pipeline of them."""
        CountingConnection.sent += 1
        super().sendall(data, flags)


class CountingConnection(Connection):
    """A connection whose sends are counted, together with those of all others of its kind."""

    sent = 0

    def _connect(self) -> CountingSocket:
        plain = super()._connect()  # type: ignore[no-untyped-call]
        seconds = plain.gettimeout()
        counting = CountingSocket(fileno=plain.detach())
        counting.settimeout(seconds)
        return counting


def counted(client: Client) -> Client:
    """The same client, whose new connections count."""
    client.connection_pool.connection_class = CountingConnection
    return client


@dataclass(frozen=True, slots=True)
class Counters:
    """A server's counters at one moment.

    Attributes:
        commands: executed, those within scripts included.
        received: bytes that clients have sent.
        aof: bytes in the append-only file.
    """

    commands: int
    received: int
    aof: int

    @classmethod
    def of(cls, client: Client) -> Counters:
        """Ask the server."""
        info = client.info("everything")
        return cls(
            info["total_commands_processed"],
            info["total_net_input_bytes"],
            info["aof_current_size"],
        )

    def __sub__(self, before: Counters) -> Counters:
        return Counters(
            self.commands - before.commands,
            self.received - before.received,
            self.aof - before.aof,
        )


def stored_bytes(client: Client) -> int:
    """What all keys of the server take, each measured in full; not those that expire meanwhile."""
    return sum(client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(count=1000))
