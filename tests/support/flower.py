"""Flower, unchanged, as a process of its own on a free port of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.workers import ROOT, STOP_TIMEOUT_S, eventually
from worker.embedded.ports import free_ports

COLUMNS = "name,args,uuid,state,received,started,runtime,worker"


class Flower:
    """``celery flower`` on a broker, listening; without a password, as only this machine sees it.

    Args:
        folder: for its log and its state.
        columns: of the table of tasks.
        app: whose settings it has, as the one that is deployed; by default nobody's.
    """

    def __init__(self, url: str, folder: Path, columns: str = COLUMNS, app: str = "") -> None:
        self.port = next(free_ports(1))
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / "flower.log"
        env = {**os.environ, "PYTHONPATH": str(ROOT), "FLOWER_UNAUTHENTICATED_API": "true"}
        arguments = [
            *(("--app", app) if app else ()),
            *("--broker", url, "flower", "--address=127.0.0.1", f"--port={self.port}"),
            f"--tasks-columns={columns}",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "celery", *arguments],
                cwd=folder,
                env=env,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        eventually(self._listens, "Flower listens")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)

    def _listens(self) -> bool:
        assert self._process.poll() is None, self.log
        try:
            return self.get("/healthcheck") == "OK"
        except OSError:
            return False

    @property
    def log(self) -> str:
        """Everything it printed."""
        return self._log.read_text()

    def get(self, path: str) -> str:
        """The body of a page."""
        with urllib.request.urlopen(self.url + path, timeout=10) as response:
            body: bytes = response.read()
        return body.decode()

    def task(self, job_id: str) -> dict[str, Any]:
        """What Flower knows of a task by its events; nothing if it has seen none."""
        found: dict[str, Any] = self.tasks().get(job_id, {})
        return found

    def tasks(self) -> dict[str, dict[str, Any]]:
        """Everything it knows, by id."""
        known: dict[str, dict[str, Any]] = json.loads(self.get("/api/tasks"))
        return known

    def wait_state(self, job_id: str, state: str) -> None:
        """Wait until it shows this state of a task."""
        eventually(
            lambda: self.task(job_id).get("state") == state,
            f"Flower shows {job_id} as {state}, not as {self.task(job_id).get('state')}",
        )
