"""Processes that this program starts, that may be killed, and that never outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import worker
from worker.undisturbed import undisturbed

# A plain shell and a pipe: should this program die without a word, even by SIGKILL, the pipe ends,
# and so does the process, with its children: it leads its own process group.
_GUARD = 'read -r _; kill -s KILL -- "-$1" 2>/dev/null'
_STOP_S = 10.0
_DEAD_WITHIN_S = 30.0
_LAST_LINES = 8


class GuardedProcess:
    """A process out of reach of a Ctrl-C meant for us, and a guard that ends it should we die.

    Args:
        command: the program and its arguments; started at once.
        env: its whole environment.
        log: the file to which what it prints is added.
        folder: its working directory; ours, if not given.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], log: Path, folder: Path | None = None
    ) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        try:
            with log.open("ab") as output, undisturbed():
                self._start(list(command), env, output, folder)
        except BaseException:  # nobody will get to know of us
            self.kill()
            raise

    def _start(
        self, command: list[str], env: Mapping[str, str], log: IO[bytes], folder: Path | None
    ) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own programs and arguments
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=folder,
            start_new_session=True,
        )
        self._guard = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _GUARD, "stepkeeper-guard", str(self._process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process id, and that of its process group."""
        assert self._process is not None
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code; ``None`` while it runs."""
        assert self._process is not None
        return self._process.poll()

    def kill(self) -> None:
        """SIGKILL it with all its children; returns when it is dead."""
        self._dismiss_guard()
        if self._process is None:
            return
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(_DEAD_WITHIN_S)

    def stop(self) -> None:
        """SIGTERM, so that it ends in order; SIGKILL if it takes too long."""
        assert self._process is not None
        self._dismiss_guard()
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def last_words(self, lines: int = _LAST_LINES) -> str:
        """The last lines of its log that are not blank, or that there are none."""
        printed = self._log.read_text("utf-8", errors="replace").splitlines()
        return "\n".join([line for line in printed if line.strip()][-lines:]) or "nothing"

    def _dismiss_guard(self) -> None:
        """Always before the process is reaped: its id may then be somebody else's."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None


def environment_without(*foreign: str) -> dict[str, str]:
    """This program's environment for a process of ours, without variables that begin like that.

    Where this package is not installed but lies in a checkout, the process finds it there.
    """
    kept = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    root = Path(worker.__file__).parents[1]
    if root.name in ("site-packages", "dist-packages"):
        return kept
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, [str(root), kept.get("PYTHONPATH")]))}
