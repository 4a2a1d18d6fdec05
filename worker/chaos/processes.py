"""Celery workers as processes that may be killed, and that never outlive the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from api_client.errors import StepkeeperError
from worker.chaos.agents import LEDGER
from worker.chaos.options import Options
from worker.guarded import GuardedProcess, environment_without


class WorkerDied(StepkeeperError):
    """A worker ended although nobody had killed it."""


def worker_environment(options: Options, url: str, ledger: Path) -> dict[str, str]:
    """The environment of the workers: this program's, without settings meant for others."""
    temporary = ledger.parent / "tmp"  # who is killed leaves its temporary files behind
    temporary.mkdir()
    return environment_without("STEPKEEPER_") | {
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
        self._process: GuardedProcess | None = None

    def start(self) -> None:
        """Start it; returns before it takes messages."""
        self.boot = ""
        self._process = GuardedProcess(self._command, self._env, self._log)

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
        code = None if self._process is None else self._process.code
        if self._process is not None and code is not None:
            last = self._process.last_words(1)
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
        if self._process is not None:
            self._process.kill()
            self._process = None
