"""Redis on one machine, workers on two others, and a cable that is pulled out in mid-job."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api_client import AgentClient
from api_client.contract import Event
from tests.support.hosts import Hosts, why_not
from tests.support.workers import Ledger, WorkerProcess, eventually
from worker.embedded.server import server_binary

PORT = 6379
RECOVERY_S = 90
"""A worker notices a silent broker within the socket's time-out, and comes back by itself."""


class Machines:
    """A Redis and workers on hosts of their own; files are shared, so that a test can look."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self.ledger = Ledger(folder / "ledger")
        self._folder = folder
        self._gates = folder / "gates"
        self._gates.mkdir()
        self._workers: list[WorkerProcess] = []
        self.client = AgentClient(f"unix://{folder}/redis.sock")
        self._server = self._start_redis()

    def _start_redis(self) -> subprocess.Popen[bytes]:
        options = {
            "bind": self.hosts.address("store"),
            "port": str(PORT),
            "protected-mode": "no",
            "unixsocket": str(self._folder / "redis.sock"),
            "dir": str(self._folder),
            "appendonly": "yes",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        with (self._folder / "redis.log").open("wb") as log:
            return subprocess.Popen(
                [*self.hosts.on("store"), str(server_binary()), *words], stdout=log
            )

    def wait_ready(self) -> None:
        """Wait until Redis answers."""
        eventually((self._folder / "redis.sock").exists, "Redis listens")

    def worker(self, host: str) -> WorkerProcess:
        """A worker on a host, which takes messages."""
        worker = WorkerProcess(
            f"redis://{self.hosts.address('store')}:{PORT}/0",
            name=f"w@{host}",
            env={"TEST_LEDGER": str(self.ledger.path), "TEST_GATES": str(self._gates)},
            before=self.hosts.on(host),
        )
        self._workers.append(worker)
        worker.wait_ready()
        return worker

    def hold(self, *gates: str) -> None:
        """Shut gates, see ``tests.support.agents``."""
        for gate in gates:
            (self._gates / gate).touch()

    def open(self, *gates: str) -> None:
        """Open gates."""
        for gate in gates:
            (self._gates / gate).unlink()

    def submit(self, words: str) -> str:
        """A job of the test agent."""
        return self.client.submit("plan", words, check_agent=False)

    def owners(self, job_id: str) -> list[str]:
        """The hosts of the workers that have claimed a job, in order."""
        claimed = [event for event in self.trace(job_id) if event.kind == "claimed"]
        nodes = [str(event.data["worker"]).partition("/")[0] for event in claimed]
        return [node.partition("@")[2] for node in nodes]

    def trace(self, job_id: str) -> list[Event]:
        """The job's trace."""
        return list(self.client.trace(job_id))

    def close(self) -> None:
        """Nobody is left."""
        for worker in self._workers:
            worker.kill()
        self._server.kill()
        self._server.wait()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """One machine for the store, two for workers."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with Hosts("store", "left", "right") as hosts:
        machines = Machines(hosts, tmp_path)
        try:
            machines.wait_ready()
            yield machines
        finally:
            machines.close()


def keys(entries: list[dict[str, Any]], x: int) -> list[str]:
    """The idempotency keys with which call ``x`` was made."""
    return [entry["key"] for entry in entries if entry["x"] == x]


def test_a_worker_cut_off_in_mid_job_doubles_nothing_and_comes_back(machines: Machines) -> None:
    left = machines.worker("left")
    gates = ("put-a-2", "pay-b-2")
    machines.hold(*gates)
    again, once = machines.submit("look put put @a"), machines.submit("look pay put @b")
    for gate in gates:
        machines.ledger.wait("gate", name=gate)
    machines.worker("right")

    machines.hosts.cut("left")
    machines.ledger.wait("gate", 2, name="put-a-2")  # the other worker repeats the call
    paused = eventually(lambda: machines.client.get(once).pause, "a person is asked")
    machines.open(*gates)
    assert machines.client.result(again, timeout_s=30) == "look 1; put 2; put 3"
    eventually(lambda: machines.client.get(again).published, "its end is told")
    ended = machines.client.get(again), machines.trace(again)

    machines.hosts.join("left")
    left.wait_line("left why=fenced", count=2, timeout_s=RECOVERY_S)
    late = machines.client.get(again), machines.trace(again)
    assert late == ended, "a late commit changes nothing"
    assert machines.owners(again) == ["left", "right"]
    puts = machines.ledger.entries("put", tag="a")
    assert len(keys(puts, 2)) == 2
    assert len(set(keys(puts, 2))) == 1, "the repeated call has the same idempotency key"
    assert len(keys(puts, 3)) == 1, "who was cut off did not go on"

    assert paused.kind == "unknown_outcome"
    machines.client.signal(once, {"kind": "happened", "result": "pay 2", "by": "ada"})
    answer = machines.client.result(once, timeout_s=30)
    assert answer.endswith("A person checked its outcome: pay 2; put 3")
    assert len(machines.ledger.entries("pay", tag="b")) == 1, "never twice"

    machines.hosts.cut("right")
    alone = machines.submit("look @c")
    assert machines.client.result(alone, timeout_s=RECOVERY_S) == "look 1"
    assert machines.owners(alone)[-1] == "left"
