"""Ports of loopback that nobody uses."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator

from worker.embedded.errors import EmbeddedServerError

HOST = "127.0.0.1"
# Below what Linux and macOS hand out to outgoing connections: a restart finds its port still free,
# and a client that reconnects meanwhile cannot be connected to itself.
_PORTS = range(20_000, 32_000)


def free_ports(count: int) -> Iterator[int]:
    """Up to ``count`` ports of loopback on which nobody listens at the moment.

    Raises:
        EmbeddedServerError: none was found in a reasonable number of tries.
    """
    for _ in range(count * 100):
        port = secrets.choice(_PORTS)
        if _is_free(port):
            yield port
            count -= 1
        if not count:
            return
    raise EmbeddedServerError(f"no free port between {_PORTS.start} and {_PORTS.stop - 1}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
