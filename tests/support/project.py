"""A Celery project as people have it, in a folder of its own: an app, tasks, routes, a schedule.

It knows nothing of Stepkeeper until the lines of the README are added to it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.workers import ROOT, RunningWorker

README = (ROOT / "README.md").read_text()

CELERY = """
from celery import Celery

app = Celery("proj", broker={broker!r}, backend={backend!r}, include=["proj.tasks"])

app.conf.update(
    result_expires=3600,
    task_routes={{"proj.tasks.report": {{"queue": "reports"}}}},
    beat_schedule={{"every-second": {{"task": "proj.tasks.tick", "schedule": 1.0}}}},
    broker_connection_retry_on_startup=True,
)
"""

TASKS = """
from pathlib import Path

from .celery import app


@app.task
def add(x, y):
    return x + y


@app.task(bind=True)
def report(self, name):
    return [name, self.request.delivery_info["routing_key"]]


@app.task
def notify(answer):
    with Path("notified.txt").open("a") as file:
        file.write(answer + "\\n")
    return "told: " + answer


@app.task
def tick():
    with Path("ticks.txt").open("a") as file:
        file.write("tick\\n")
"""


class Project:
    """The project's folder, and what is run in it.

    Args:
        url: of a Redis; the broker is its database 1, results go to its database 2.
        env: further environment variables of everything that runs here.
    """

    def __init__(self, folder: Path, url: str, env: dict[str, str]) -> None:
        self.folder = folder
        self._env = env
        server = url.rpartition("/")[0]
        self.broker, self.backend = f"{server}/1", f"{server}/2"
        package = folder / "proj"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "tasks.py").write_text(TASKS)
        self._app = package / "celery.py"
        self._app.write_text(CELERY.format(broker=self.broker, backend=self.backend))

    def gain_an_agent(self) -> list[str]:
        """Do what the README says; returns the lines that were added to the project's app."""
        (self.folder / "shop.py").write_text(readme_block("# shop.py"))
        lines = [line for line in readme_block("from shop import shop").splitlines() if line]
        with self._app.open("a") as file:
            file.write("\n".join(["", *lines, ""]))
        return lines

    def environment(self) -> dict[str, str]:
        """As on any machine; our package is installed, here by being on the path."""
        known = {k: v for k, v in os.environ.items() if not k.startswith(("STEPKEEPER_", "LLM_"))}
        return {**known, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **self._env}

    def worker(self, pool: str) -> RunningWorker:
        """``celery -A proj worker --beat``, which takes messages."""
        arguments = ["-A", "proj", "worker", "--beat", f"--pool={pool}", "--concurrency=2"]
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", *arguments, "--queues=celery,reports", "-lINFO"],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        worker = RunningWorker(f"{pool}@proj", process.pid, process.stdout, process.wait)
        return worker.wait_ready()

    def run(self, program: str) -> str:
        """What a program of the project prints."""
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def lines(self, name: str) -> list[str]:
        """The lines that tasks have written to a file."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


def readme_block(begin: str) -> str:
    """The one Python block of the README that begins so."""
    blocks: list[Any] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    [found] = [block for block in blocks if block.startswith(begin)]
    return str(found)
