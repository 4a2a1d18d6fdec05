"""Real Celery workers as processes, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60


class WorkerProcess:
    """One ``celery worker`` in its own process group.

    Args:
        url: of the store, broker and result backend.
        app: import path of the Celery app.
        env: further environment variables.
    """

    def __init__(
        self,
        url: str,
        *,
        app: str = "worker.app",
        agents: str = "tests.support.agents",
        name: str = "w1@test",
        pool: str = "threads",
        concurrency: int = 4,
        env: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.lines: list[str] = []
        self._ready = threading.Event()
        self._changed = threading.Condition()
        settings = {
            "STEPKEEPER_REDIS_URL": url,
            "STEPKEEPER_AGENTS": agents,
            "STEPKEEPER_LEASE_S": "3",
            "STEPKEEPER_SWEEP_S": "0.2",
            "STEPKEEPER_HINT_GRACE_S": "1",
            "STEPKEEPER_PUBLISH_GRACE_S": "2",
            "STEPKEEPER_CONCURRENCY": str(concurrency),
            **(env or {}),
        }
        command = [
            *(sys.executable, "-m", "celery", "-A", app, "worker"),
            *(f"--hostname={name}", f"--pool={pool}", f"--concurrency={concurrency}"),
            *("--loglevel=INFO", "--without-gossip", "--without-mingle"),
        ]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip())
                self._changed.notify_all()
            if " ready." in line:
                self._ready.set()
        with self._changed:
            self._changed.notify_all()

    @property
    def log(self) -> str:
        """Everything the worker printed."""
        return "\n".join(self.lines)

    def wait_ready(self) -> WorkerProcess:
        """Wait until the worker takes messages."""
        if not self._ready.wait(START_TIMEOUT_S):
            raise AssertionError(f"worker {self.name} did not start:\n{self.log}")
        return self

    def wait_line(self, text: str, timeout_s: float = 30) -> None:
        """Wait until a printed line holds ``text``."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: any(text in line for line in self.lines), timeout_s
            )
        if not found:
            raise AssertionError(f"worker {self.name} never printed {text!r}:\n{self.log}")

    def send(self, number: int) -> None:
        """Signal the main process."""
        os.kill(self.process.pid, number)

    def send_group(self, number: int) -> None:
        """Signal the main process and its children."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """SIGKILL, to the whole group; returns when it is dead."""
        if self.process.poll() is None:
            self.send_group(signal.SIGKILL)
        self.process.wait(STOP_TIMEOUT_S)
        self._reader.join(5)

    def wait_dead(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for the process to end by itself; returns its exit code."""
        code = self.process.wait(timeout_s)
        self._reader.join(5)
        return code

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.send(signal.SIGTERM)
        return self.wait_dead()


@contextmanager
def running(url: str, **options: Any) -> Iterator[WorkerProcess]:
    """A worker that takes messages, and is dead afterwards."""
    worker = WorkerProcess(url, **options)
    try:
        yield worker.wait_ready()
    finally:
        worker.kill()


class Ledger:
    """What tools and models of the test agents have really done, one JSON line each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def entries(self, kind: str | None = None) -> list[dict[str, Any]]:
        """All entries, or those of one kind, in the order in which they were written."""
        found = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [entry for entry in found if kind is None or entry["kind"] == kind]


def eventually(check: Callable[[], Any], what: str, timeout_s: float = 30) -> Any:
    """Poll a condition that no event announces; returns its first true value."""
    pause = threading.Event()
    tries = int(timeout_s / 0.05)
    for _ in range(tries):
        value = check()
        if value:
            return value
        pause.wait(0.05)
    raise AssertionError(f"not within {timeout_s} s: {what}")
