"""Celery workers as processes that may be killed, and that never outlive the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from api_client.errors import StepkeeperError
from worker.chaos.agents import LEDGER
from worker.chaos.options import Options

# A plain shell and a pipe, as the embedded server has it: should this program die without a word,
# the pipe ends, and so do the workers, which lead their own process groups.
_GUARD = 'read -r _; kill -s KILL -- "-$1" 2>/dev/null'
DEAD_WITHIN_S = 30.0


class WorkerDied(StepkeeperError):
    """A worker ended although nobody had killed it."""


def worker_environment(options: Options, url: str, ledger: Path) -> dict[str, str]:
    """The environment of the workers: this program's, without settings meant for others."""
    temporary = ledger.parent / "tmp"  # who is killed leaves its temporary files behind
    temporary.mkdir()
    kept = {name: text for name, text in os.environ.items() if not name.startswith("STEPKEEPER_")}
    return kept | {
        "STEPKEEPER_REDIS_URL": url,
        "STEPKEEPER_AGENTS": "worker.chaos.agents",
        "STEPKEEPER_CONCURRENCY": str(options.concurrency),
        "STEPKEEPER_IN_FLIGHT": str(options.in_flight),
        "STEPKEEPER_LEASE_S": str(options.lease_s),
        "STEPKEEPER_SWEEP_S": "0.5",
        "STEPKEEPER_HINT_GRACE_S": "2",
        "STEPKEEPER_PUBLISH_GRACE_S": "3",
        "TMPDIR": str(temporary),
        LEDGER: str(ledger),
    }


class WorkerProcess:
    """One ``celery worker`` under one node name; started again and again.

    Args:
        log: the file that takes what it prints.

    Attributes:
        boot: how the store calls its latest start; empty until it has been recognised there.
    """

    def __init__(self, node: str, options: Options, env: Mapping[str, str], log: Path) -> None:
        self.node = node
        self.boot = ""
        self._command = [
            *(sys.executable, "-m", "celery", "-A", "worker.app", "worker"),
            *(f"--hostname={node}", f"--pool={options.pool}"),
            f"--concurrency={options.concurrency}",
            *("--loglevel=INFO", "--without-gossip", "--without-mingle"),
        ]
        self._env = dict(env)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns before it takes messages."""
        self.boot = ""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own program and arguments
                self._command,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
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
    def up(self) -> bool:
        """Whether it runs; raises ``WorkerDied`` if it should and does not."""
        self.check()
        return self._process is not None

    def check(self) -> None:
        """Look whether it still runs.

        Raises:
            WorkerDied: it ended by itself; says what it printed last.
        """
        code = None if self._process is None else self._process.poll()
        if code is not None:
            lines = self._log.read_text("utf-8", "replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "nothing")
            raise WorkerDied(
                f"worker {self.node} ended by itself with code {code}; it printed last: {last}"
            )

    def recognise(self, node: str, boot: str, pid: int) -> None:
        """Learn the name of this start from an owner whose process is one of ours."""
        if not self.boot and node == self.node and self._process is not None:
            try:
                ours = os.getpgid(pid) == self._process.pid
            except ProcessLookupError:
                return
            self.boot = boot if ours else ""

    def kill(self) -> None:
        """SIGKILL it with all its children; returns when it is dead."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(DEAD_WITHIN_S)
            self._process = None
