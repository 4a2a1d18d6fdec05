"""A worker in a process of its own, which can be killed like any other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from worker.demo.failure import DemoFailed

# The end of the pipe tells of our death, even by SIGKILL: no worker is left behind.
_GUARD = 'read -r _; kill -KILL "$1" 2>/dev/null'
_STOP_S = 10.0
_LAST_LINES = 8


class WorkerProcess:
    """``stepkeeper worker``, started at once; it takes a moment until it takes up jobs.

    Args:
        arguments: of the command.
        env: its whole environment.
        log: the file that gets what it prints.
        folder: its working directory.
    """

    def __init__(
        self, arguments: list[str], env: Mapping[str, str], log: Path, folder: Path
    ) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603  # our own program and arguments
                [sys.executable, "-m", "worker.cli", "worker", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=folder,
                start_new_session=True,  # a Ctrl-C is ours to handle
            )
        self._guard: subprocess.Popen[bytes] | None = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _GUARD, "stepkeeper-guard", str(self.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL; returns when it is dead."""
        self._dismiss_guard()
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM, so that it ends in order; SIGKILL if it takes too long."""
        self._dismiss_guard()
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def check(self) -> None:
        """Make sure that it lives.

        Raises:
            DemoFailed: it has ended by itself; says what it printed last.
        """
        code = self._process.poll()
        if code is not None:
            raise DemoFailed(f"the worker ended by itself (code {code}): {self.last_words()}")

    def last_words(self) -> str:
        """The end of its log."""
        lines = self._log.read_text("utf-8", errors="replace").splitlines()
        return "\n".join(["", *lines[-_LAST_LINES:]]) if lines else "it printed nothing"

    def _dismiss_guard(self) -> None:
        """Always before the worker is reaped: its process id may then be somebody else's."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None
