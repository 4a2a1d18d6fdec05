"""Jobs of the version before, on the code of now: waiting, in flight, and with both at work.

The version before is the newest tag; before the first release, the commit that is named here.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.lab import APP, Lab
from tests.support.workers import ROOT, WorkerProcess

SUBMIT = """
import sys, api_client
client = api_client.AgentClient(sys.argv[1])
print(api_client.__file__)
for words in sys.argv[2:]:
    print(client.submit("plan", words, check_agent=False))
"""
FIRST = "f28f6c36cab6cfe65549d66e9c9274fd6f6995dc"
MIXED = 24


def previous() -> str:
    """The newest tag that is an ancestor, or the commit that stands for it."""
    command = ["git", "describe", "--tags", "--abbrev=0"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or FIRST


@pytest.fixture(scope="module")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The work tree of the version before."""
    archive = ["git", "archive", previous(), "worker", "api_client", "tests/support"]
    made = subprocess.run(archive, cwd=ROOT, capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"the version before is not in this clone: {made.stderr.decode().strip()}")
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as tree:
        tree.extractall(folder, filter="data")
    (folder / "tests" / "__init__.py").touch()
    return folder


class Fleet:
    """Workers of both versions on one store."""

    def __init__(self, lab: Lab, old_tree: Path) -> None:
        self.lab = lab
        self._old_tree = old_tree
        self._old: list[WorkerProcess] = []

    def old(self, name: str = "old@test", **options: Any) -> WorkerProcess:
        """A worker of the version before, which takes messages."""
        worker = WorkerProcess(
            self.lab.url, app=APP, name=name, env=self.lab.env, root=self._old_tree, **options
        )
        self._old.append(worker)
        worker.wait_ready()
        return worker

    def new(self, name: str = "new@test", **options: Any) -> Any:
        """A worker of now."""
        return self.lab.worker(name, **options)

    def submit(self, *words: str) -> list[str]:
        """Submit jobs by the client of the version before."""
        where, *jobs = self._run(SUBMIT, self.lab.url, *words).split()
        assert where.startswith(str(self._old_tree)), "the client is not that of the version before"
        return jobs

    def _run(self, code: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=self._old_tree,
            env={**os.environ, "PYTHONPATH": str(self._old_tree)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def close(self) -> None:
        """Nobody of the old is left; the lab ends the others."""
        for worker in self._old:
            worker.kill()


@pytest.fixture
def fleet(lab: Lab, old_tree: Path) -> Iterator[Fleet]:
    """Both versions, on an empty store."""
    fleet = Fleet(lab, old_tree)
    yield fleet
    fleet.close()


def test_waiting_jobs_and_jobs_in_flight_go_on_with_the_new_code(fleet: Fleet) -> None:
    lab = fleet.lab
    old = fleet.old()
    with lab.shut("put-flying-2"), lab.shut("pay-doubt-2"):
        asking, failing, flying, doubtful = fleet.submit(
            "look ask put", "look fail", "look put look @flying", "look pay look @doubt"
        )
        for job_id in (asking, failing):
            lab.wait_status(job_id, "paused")
        lab.wait_gate("put-flying-2")
        lab.wait_gate("pay-doubt-2")
        old.kill()
    (queued,) = fleet.submit("look put")
    fleet.new()
    assert lab.client.result(flying, 30) == "look 1; put 2; look 3"
    assert lab.client.result(queued, 30) == "look 1; put 2"
    lab.client.signal(asking, {"kind": "answer", "value": "yes", "by": "ada"})
    assert lab.client.result(asking, 30).startswith("look 1; ")

    in_doubt = lab.wait_status(doubtful, "paused").pause
    assert in_doubt is not None
    assert in_doubt.kind == "unknown_outcome"
    lab.client.signal(doubtful, {"kind": "happened", "result": "pay 2", "by": "ada"})
    assert "pay 2" in lab.client.result(doubtful, 30)
    assert len(lab.ledger.entries("pay")) == 1
    assert len({entry["key"] for entry in lab.ledger.entries("put", tag="flying")}) == 1

    lab.client.signal(failing, {"kind": "finish", "answer": "given up", "by": "ada"})
    assert lab.client.result(failing, 30) == "given up"


def test_a_fleet_of_both_versions_runs_jobs_to_their_ends(fleet: Fleet) -> None:
    """As in a rolling deploy: workers first, one by one, and callers afterwards."""
    lab = fleet.lab
    old = fleet.old(concurrency=2)
    fleet.new(concurrency=2)
    jobs = fleet.submit(*["look put look put look put"] * MIXED)
    lab.wait_status(jobs[MIXED // 2], "ended", timeout_s=60)
    old.stop()
    jobs += [lab.submit("look put look put look put")]
    for job_id in jobs:
        answer = lab.client.result(job_id, 60)
        assert answer == "look 1; put 2; look 3; put 4; look 5; put 6"
    claims = [event for job_id in jobs for event in lab.events(job_id, "claimed")]
    assert {str(event.data["worker"]).split("@")[0] for event in claims} == {"old", "new"}
