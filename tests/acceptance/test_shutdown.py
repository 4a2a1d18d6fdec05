"""Workers leave: nothing is lost, nobody waits for longer than the grace time (rule 16, H3)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.lab import Lab
from tests.support.workers import RunningWorker, eventually

POOLS = ("threads", "prefork", "loop")
MOVED_S = 5.0
"""A job that was handed over runs elsewhere within this time."""
SHORT_GRACE = {"STEPKEEPER_SHUTDOWN_GRACE_S": "1"}
LONG_GRACE = {"STEPKEEPER_SHUTDOWN_GRACE_S": "300"}


def group(worker: RunningWorker) -> list[int]:
    """The processes of a worker that are alive, zombies apart."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp, *_ = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(pgrp) == worker.pid and state != "Z":
            found.append(int(path.parent.name))
    return found


def start(lab: Lab, pool: str, env: dict[str, str]) -> RunningWorker:
    """The worker that is to leave; ``loop`` is a pool of threads with jobs on an event loop."""
    if pool == "loop":
        return lab.worker("w1@test", env={**env, "STEPKEEPER_IN_FLIGHT": "8"})
    return lab.worker("w1@test", pool=pool, env=env)


def hold(lab: Lab, worker: RunningWorker, gate: str) -> str:
    """A job that this worker runs, and that stands at the gate in its second step."""
    lab.hold(gate)
    job_id = lab.submit("look put look @held")
    lab.wait_gate(gate)
    assert lab.view(job_id).worker is not None
    assert str(lab.view(job_id).worker).startswith(worker.name)
    return job_id


@pytest.mark.parametrize(
    ("pool", "number"),
    [*((pool, signal.SIGTERM) for pool in POOLS), ("threads", signal.SIGINT)],
)
def test_a_job_moves_at_its_next_commit(lab: Lab, pool: str, number: int) -> None:
    """Asked once: the call in flight is finished, committed, and the job goes on elsewhere."""
    leaving = start(lab, pool, LONG_GRACE)
    job_id = hold(lab, leaving, "model-held-2")
    lab.worker("w2@test")
    leaving.send(number)
    leaving.wait_line("Warm shutdown")
    opened = time.time()
    lab.open("model-held-2")
    lab.ledger.wait("model", tag="held", step=3)
    assert lab.wait_published(job_id).status == "succeeded"
    steps = [(e["step"], e["pid"]) for e in lab.ledger.entries("model", tag="held")]
    assert [step for step, _ in steps] == [1, 2, 3, 4]
    assert steps[1][1] != steps[2][1]
    assert lab.ledger.entries("model", tag="held", step=3)[0]["at"] - opened < MOVED_S
    celerys_code = 1 if number == signal.SIGINT else 0
    assert leaving.wait_dead() == celerys_code
    assert group(leaving) == []


@pytest.mark.parametrize(
    ("pool", "asked"),
    [
        *((pool, [signal.SIGTERM, signal.SIGTERM]) for pool in POOLS),
        ("threads", [signal.SIGINT, signal.SIGINT]),
        ("prefork", [signal.SIGQUIT]),
    ],
)
def test_asked_twice_it_leaves_at_once(lab: Lab, pool: str, asked: list[int]) -> None:
    """The call in flight is given up, and made again elsewhere at once."""
    leaving = start(lab, pool, LONG_GRACE)
    job_id = hold(lab, leaving, "put-held-2")
    for count, number in enumerate(asked, 1):
        leaving.send(number)
        if count < len(asked):  # two of one kind at the same time are one
            leaving.wait_line("Warm shutdown")
    assert leaving.wait_dead(timeout_s=10) == 0
    dead = time.time()
    assert group(leaving) == []
    lab.open("put-held-2")
    lab.worker("w2@test")
    assert lab.wait_published(job_id).status == "succeeded"
    first, again = lab.ledger.entries("put", tag="held")
    assert first["key"] == again["key"]
    assert lab.events(job_id, "claimed")[1].at / 1000 - dead < MOVED_S


@pytest.mark.parametrize("pool", POOLS)
def test_the_grace_time_ends_it(lab: Lab, pool: str) -> None:
    """A call that outlasts the grace time is given up; the exit code is that of a good end."""
    leaving = start(lab, pool, SHORT_GRACE)
    job_id = hold(lab, leaving, "put-held-2")
    asked = time.monotonic()
    leaving.send(signal.SIGTERM)
    assert leaving.wait_dead(timeout_s=10) == 0
    assert 1.0 <= time.monotonic() - asked < 1.0 + MOVED_S
    assert "leaving without waiting for 1 calls: 1 s have passed" in leaving.log
    assert group(leaving) == []
    lab.open("put-held-2")
    lab.worker("w2@test")
    assert lab.wait_published(job_id).status == "succeeded"


def test_a_once_call_that_was_given_up_is_asked_about(lab: Lab) -> None:
    """Nobody knows whether it happened: a person decides (rule 5)."""
    leaving = lab.worker("w1@test", env=SHORT_GRACE)
    gate = "pay-held-1"
    lab.hold(gate)
    job_id = lab.submit("pay @held")
    lab.wait_gate(gate)
    leaving.stop()
    lab.worker("w2@test")
    view = lab.wait_status(job_id, "paused")
    assert view.pause is not None
    assert view.pause.kind == "unknown_outcome"
    assert len(lab.ledger.entries("pay")) == 1


def test_the_control_command_is_a_signal_too(lab: Lab) -> None:
    """``celery control shutdown`` waits no longer than SIGTERM."""
    leaving = lab.worker("w1@test", env=SHORT_GRACE)
    hold(lab, leaving, "put-held-2")
    with lab.plain.connection_for_write() as connection:
        lab.plain.control.broadcast("shutdown", connection=connection)
    assert leaving.wait_dead(timeout_s=10) == 0
    assert "1 s have passed" in leaving.log


def test_an_idle_worker_leaves_at_once(lab: Lab) -> None:
    """No grace time is spent on nothing; leases, threads and children do not hold it."""
    leaving = lab.worker("w1@test", pool="prefork", env=LONG_GRACE)
    job_id = lab.submit("look @a")
    lab.wait_published(job_id)
    asked = time.monotonic()
    assert leaving.stop() == 0
    assert time.monotonic() - asked < MOVED_S
    assert group(leaving) == []


def test_children_of_a_killed_worker_end(lab: Lab) -> None:
    """SIGKILL to the main process alone: its children do not live on."""
    worker = lab.worker("w1@test", pool="prefork", concurrency=2)
    job_id = hold(lab, worker, "put-held-2")
    os.kill(worker.pid, signal.SIGKILL)
    lab.worker("w2@test")
    lab.ledger.wait("put", count=2, tag="held")
    lab.open("put-held-2")
    assert lab.wait_published(job_id).status == "succeeded"
    eventually(lambda: group(worker) == [], "the children are gone")
