"""The command ``stepkeeper`` as people and scripts run it: in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = (sys.executable, "-m", "worker.cli")
ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60

AGENTS = '''
"""Two agents: one does what its task says, one answers at once."""

import os
import threading
from pathlib import Path

from worker.agent import Agent
from worker.models import FunctionModel, Usage
from worker.models.base import ModelReply
from worker.models.scripted import act, say
from worker.tools import hand_to_human, tool


@tool(effects="safe")
def look(order: str) -> str:
    """Where an order is."""
    print("printed by a tool")
    return f"{order}: delivered"


@tool(effects="idempotent")
def hold(order: str) -> str:
    """Says that it runs, and waits to be let go."""
    Path("holding").touch()
    free, pause = Path("free"), threading.Event()
    while not free.exists():
        pause.wait(0.01)
    return f"{order}: let go"


def follow(messages):
    """One step for each word of the task."""
    words = str(messages[1]["content"]).split()
    done = sum(message["role"] == "assistant" for message in messages)
    if done == len(words):
        line = say(messages[-1]["content"])
    elif words[done] == "ask":
        line = act("A person must say.", ("hand_to_human", {"reason": "May I?"}, f"c{done}"))
    else:
        line = act("I use a tool.", (words[done], {"order": "1187"}, f"c{done}"))
    line.setdefault("role", "assistant")
    return ModelReply(line, usage=Usage(400, 30), finish_reason="stop")


shop = Agent(
    name="shop", goal="Help.", tools=[look, hold, hand_to_human], model=FunctionModel(follow)
)
echo = Agent(name="echo", goal="Say hello.", model=FunctionModel(lambda messages: "hello"))
'''


@dataclass(frozen=True)
class Place:
    """Where commands run: a working directory and an environment.

    Args:
        folder: the working directory; ``shop_agents.py`` lies there.
        store: options that name the store.
    """

    folder: Path
    store: tuple[str, ...]

    def write_agents(self) -> Place:
        """Put the module ``shop_agents`` where ``--agents`` finds it."""
        (self.folder / "shop_agents.py").write_text(AGENTS)
        return self

    def environment(self) -> dict[str, str]:
        """Ours, where a worker may be root, as in a container, and leases are short."""
        quick = {"STEPKEEPER_LEASE_S": "3", "STEPKEEPER_SWEEP_S": "0.2"}
        return {**os.environ, **quick, "PYTHONPATH": str(ROOT), "LOGNAME": "tester"}

    def run(self, *words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the store, to its end."""
        return subprocess.run(
            [*PROGRAM, *words, *self.store],
            cwd=self.folder,
            env={**self.environment(), **env},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def json(self, *words: str) -> Any:
        """What a command that succeeds prints as JSON."""
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def worker(self, *words: str, agents: str = "shop_agents") -> Iterator[WorkerCommand]:
        """``stepkeeper worker --json``, ready; gone afterwards."""
        arguments = ["worker", "--json", "--agents", agents, *words, *self.store]
        log = (self.folder / "worker.log").open("ab")
        with (
            log,
            subprocess.Popen(
                [*PROGRAM, *arguments],
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                # A test that runs in the background has SIGINT ignored, and would hand that down.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            ) as process,
        ):
            try:
                yield WorkerCommand(process, self.folder / "worker.log")
            finally:
                _kill_group(process)


class WorkerCommand:
    """A worker that has said that it is ready.

    Attributes:
        ready: what it said.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"the worker ended at once:\n{self.log}"
        self.ready = json.loads(line)

    @property
    def log(self) -> str:
        """Everything on its standard error."""
        return self._log.read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal it, wait for its end; returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(LIMIT_S)

    def rest_of_output(self) -> str:
        """What it printed on standard output behind its first line; it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.read()


def _kill_group(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it has ended by itself, which is what most tests want
