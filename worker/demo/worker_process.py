"""A worker in a process of its own, which can be killed like any other."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from worker.demo.failure import DemoFailed
from worker.guarded import GuardedProcess


class WorkerProcess(GuardedProcess):
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
        super().__init__(
            [sys.executable, "-m", "worker.cli", "worker", *arguments], env, log, folder
        )

    def check(self) -> None:
        """Make sure that it lives.

        Raises:
            DemoFailed: it has ended by itself; says what it printed last.
        """
        if self.code is not None:
            raise DemoFailed(
                f"the worker ended by itself (code {self.code}); it printed:\n{self.last_words()}"
            )
