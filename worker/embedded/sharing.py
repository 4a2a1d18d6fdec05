"""One server per folder for several commands: the first starts it, the rest join.

Should the server die before its time, who started it starts it again: its port and data stay.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from worker.embedded.errors import EmbeddedServerError, FolderInUse
from worker.embedded.folder import POLL, Endpoint, find_server
from worker.embedded.server import EmbeddedServer, Fsync

log = logging.getLogger(__name__)

_LOOK_S = 0.25


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
    keeper = _Keeper(server) if server.running else None
    try:
        yield SharedServer(found.url, started=keeper is not None)
    finally:
        if keeper is not None:
            keeper.leave()
        server.stop()


class _Keeper:
    """Starts a server again that has died, until told to leave."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="embedded-keeper", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Returns when the server will be left alone."""
        self._leaving.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._leaving.wait(_LOOK_S):
            if not self._server.running:
                self._start()

    def _start(self) -> None:
        where = self._server.data_dir
        try:
            self._server.start()
        except (EmbeddedServerError, OSError) as error:
            log.error("the embedded server in %s has died and does not start: %s", where, error)
        else:
            log.warning("the embedded server in %s had died; it runs again", where)


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
