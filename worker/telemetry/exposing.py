"""Showing a worker's metrics over HTTP, right for threads and for a prefork pool.

The pool's children count in files of their own (prometheus-client's multiprocess mode), which the
main process adds up when it is asked. A child that is killed leaves its file: what it counted
stays counted. The folder is made anew at each start of the worker, and removed at its end.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from api_client.errors import InvalidInput

FOLDER = "PROMETHEUS_MULTIPROC_DIR"


@dataclass(slots=True)
class Exposed:
    """A running server of metrics."""

    host: str
    port: int
    _server: Any

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


def prepare_children() -> None:
    """Let this process, and those that are forked from it, count into files.

    The folder is the program's own (``PROMETHEUS_MULTIPROC_DIR``), or a new one.
    """
    if os.environ.get(FOLDER):
        return
    folder = tempfile.mkdtemp(prefix="stepkeeper-metrics-")
    os.environ[FOLDER] = folder
    atexit.register(partial(_remove, folder, os.getpid()))


def _remove(folder: str, maker: int) -> None:
    """At the end of the process that made the folder, not of its children."""
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)


def in_files() -> bool:
    """Whether metrics are counted into files."""
    return bool(os.environ.get(FOLDER))


def serve(host: str, port: int, registry: Any) -> Exposed:
    """Serve a registry in a thread; port 0 takes a free one.

    Raises:
        InvalidInput: the address cannot be used.
    """
    from prometheus_client import start_http_server

    try:
        server, _ = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise InvalidInput(
            f"STEPKEEPER_METRICS_PORT={port}: {host}:{port} cannot be used: {error.strerror}; "
            "each worker on one machine needs a port of its own"
        ) from None
    return Exposed(host, int(server.server_address[1]), server)


def fresh_values() -> None:
    """Count into files from here on, with locks that no thread of a parent can have held.

    prometheus-client decides at its import whether it does, which may have been long ago.
    """
    from prometheus_client import values

    values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]


def reading_registry() -> Any:
    """A registry that shows what all processes have counted into files."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.multiprocess import MultiProcessCollector

    class Files(MultiProcessCollector):
        """Leaves out files of children that were killed before they had written a byte."""

        def collect(self) -> Any:
            files = [path for path in Path(self._path).glob("*.db") if path.stat().st_size >= 8]
            return self.merge([str(path) for path in files], accumulate=True)  # type: ignore[no-untyped-call]

    registry = CollectorRegistry()
    Files(registry)  # type: ignore[no-untyped-call]
    return registry
