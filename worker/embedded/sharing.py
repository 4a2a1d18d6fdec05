"""One server per folder for several commands: the first starts it, the rest join."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from worker.embedded.errors import FolderInUse
from worker.embedded.folder import POLL, Endpoint, find_server
from worker.embedded.server import EmbeddedServer, Fsync


@dataclass(frozen=True, slots=True)
class SharedServer:
    """A server that several commands use; ``started`` tells whether it was us who started it."""

    url: str
    started: bool


@contextmanager
def shared(
    data_dir: str | os.PathLike[str], appendfsync: Fsync = "always", timeout: float = 60.0
) -> Iterator[SharedServer]:
    """Use the server that runs in ``data_dir``, or start it there; who started it stops it.

    Args:
        data_dir: where its data lies; made if it is missing.
        appendfsync: used only by who starts it.
        timeout: seconds to wait for a server that another process is starting or stopping.

    Raises:
        ServerMissing: there is no valkey-server to start.
        FolderInUse: the folder is locked, but no server of ours answered there in time.
        EmbeddedServerError: the server could not be started.
    """
    server = EmbeddedServer(data_dir, appendfsync=appendfsync, lock_timeout=0)
    found = _join_or_start(server, time.monotonic() + timeout)
    try:
        yield SharedServer(found.url, started=server.running)
    finally:
        server.stop()


def _join_or_start(server: EmbeddedServer, deadline: float) -> Endpoint:
    """The endpoint of a server that answers; started by us if nobody else has the folder."""
    while True:
        try:
            return server.start().endpoint
        except FolderInUse:
            found = find_server(server.data_dir)
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise
        time.sleep(POLL)
