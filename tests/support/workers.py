"""Real Celery workers as processes, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
OWN_PREFIXES = ("STEPKEEPER_", "TEST_", "LLM_", "CELERY_")


def settings(
    url: str, agents: str, concurrency: int, env: dict[str, str] | None = None
) -> dict[str, str]:
    """Environment variables that make workers quick enough for tests; ``env`` wins."""
    return {
        "PYTHONUNBUFFERED": "1",
        "STEPKEEPER_REDIS_URL": url,
        "STEPKEEPER_AGENTS": agents,
        "STEPKEEPER_LEASE_S": "3",
        "STEPKEEPER_SWEEP_S": "0.2",
        "STEPKEEPER_HINT_GRACE_S": "1",
        "STEPKEEPER_PUBLISH_GRACE_S": "2",
        "STEPKEEPER_CONCURRENCY": str(concurrency),
        **(env or {}),
    }


def arguments(
    app: str, name: str, pool: str, concurrency: int, options: tuple[str, ...] = ()
) -> list[str]:
    """Arguments of the ``celery`` command."""
    return [
        *("-A", app, "worker", f"--hostname={name}"),
        *(f"--pool={pool}", f"--concurrency={concurrency}"),
        *("--loglevel=INFO", "--without-gossip", "--without-mingle", *options),
    ]


KNOWN: WeakSet[RunningWorker] = WeakSet()
"""Every worker of this run that somebody still holds; what they printed explains a failure."""


class RunningWorker:
    """A worker process that leads its own process group: its log, and signals to it.

    Args:
        pid: of the main process.
        log: the reading end of what the group prints; ends when the last of the group is dead.
        wait: waits for the main process, at most so many seconds, and returns its exit code.
    """

    def __init__(self, name: str, pid: int, log: IO[str], wait: Callable[[float], int]) -> None:
        self.name = name
        self.pid = pid
        self.lines: list[str] = []
        self._wait = wait
        self._ready = threading.Event()
        self._changed = threading.Condition()
        KNOWN.add(self)
        self._reader = threading.Thread(target=self._read, args=(log,), daemon=True)
        self._reader.start()

    def _read(self, log: IO[str]) -> None:
        with log:
            for line in log:
                with self._changed:
                    self.lines.append(line.rstrip())
                    self._changed.notify_all()
                if " ready." in line:
                    self._ready.set()

    @property
    def log(self) -> str:
        """Everything the worker printed."""
        return "\n".join(self.lines)

    @property
    def alive(self) -> bool:
        """Whether any process of the group is there."""
        return self._reader.is_alive()

    def wait_ready(self) -> RunningWorker:
        """Wait until the worker takes messages."""
        if not self._ready.wait(START_TIMEOUT_S):
            raise AssertionError(f"worker {self.name} did not start:\n{self.log}")
        return self

    def wait_line(self, text: str, count: int = 1, timeout_s: float = 30) -> None:
        """Wait until ``count`` printed lines hold ``text``."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: sum(text in line for line in self.lines) >= count, timeout_s
            )
        if not found:
            raise AssertionError(f"worker {self.name} never printed {text!r}:\n{self.log}")

    def count(self, text: str) -> int:
        """How many printed lines hold ``text``."""
        with self._changed:
            return sum(text in line for line in self.lines)

    def send(self, number: int) -> None:
        """Signal the main process."""
        os.kill(self.pid, number)

    def send_group(self, number: int) -> None:
        """Signal the main process and its children."""
        os.killpg(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, to the whole group; returns when it is dead."""
        if self.alive:
            with suppress(ProcessLookupError):  # it dies in this very moment
                self.send_group(signal.SIGKILL)
        self._reader.join(STOP_TIMEOUT_S)
        self._wait(STOP_TIMEOUT_S)

    def wait_dead(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for the group to end by itself; returns the main process's exit code."""
        self._reader.join(timeout_s)
        if self.alive:
            raise AssertionError(f"worker {self.name} is still there:\n{self.log}")
        return self._wait(STOP_TIMEOUT_S)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        if self.alive:
            self.send(signal.SIGTERM)
        return self.wait_dead()


class WorkerProcess(RunningWorker):
    """One ``celery worker``, started the way people start it.

    Args:
        url: of the store, broker and result backend.
        app: import path of the Celery app.
        env: further environment variables.
        options: further arguments of the worker.
        before: words before the command, such as one that runs it elsewhere.
        root: the work tree whose code it runs.
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
        options: tuple[str, ...] = (),
        before: tuple[str, ...] = (),
        root: Path = ROOT,
    ) -> None:
        own = settings(url, agents, concurrency, env)
        self.process = subprocess.Popen(
            [
                *(*before, sys.executable, "-m", "celery"),
                *arguments(app, name, pool, concurrency, options),
            ],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        super().__init__(name, self.process.pid, self.process.stdout, self.process.wait)


@contextmanager
def running(url: str, **options: Any) -> Iterator[WorkerProcess]:
    """A worker that takes messages, and is dead afterwards."""
    worker = WorkerProcess(url, **options)
    try:
        worker.wait_ready()
        yield worker
    finally:
        worker.kill()


class Ledger:
    """What tools and models of the test agents have really done, one JSON line each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._offset = 0
        self._read: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def entries(self, kind: str | None = None, **data: Any) -> list[dict[str, Any]]:
        """Entries of one kind, or all, that hold ``data``, in the order of their writing."""
        with self._lock:
            self._read.extend(map(json.loads, self._whole_lines()))
            found = list(self._read)
        return [
            entry
            for entry in found
            if kind in (None, entry["kind"]) and data.items() <= entry.items()
        ]

    def _whole_lines(self) -> Iterator[bytes]:
        """New lines; one that is being written this moment is left for the next time."""
        with self.path.open("rb") as reading:
            reading.seek(self._offset)
            while (line := reading.readline()).endswith(b"\n"):
                self._offset += len(line)
                yield line

    def wait(self, kind: str, count: int = 1, **data: Any) -> list[dict[str, Any]]:
        """Wait until there are ``count`` such entries; returns them."""
        found: list[dict[str, Any]] = eventually(
            lambda: len(entries := self.entries(kind, **data)) >= count and entries,
            f"{count} times {kind} {data} in the ledger",
        )
        return found


def eventually(check: Callable[[], Any], what: str, timeout_s: float = 30) -> Any:
    """Poll a condition that no event announces; returns its first true value."""
    pause = threading.Event()
    tries = int(timeout_s / 0.02)
    for _ in range(tries):
        value = check()
        if value:
            return value
        pause.wait(0.02)
    raise AssertionError(f"not within {timeout_s} s: {what}")
