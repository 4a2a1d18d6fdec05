"""Redis Sentinel: the primary dies, a replica takes its place, and every accepted job ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from api_client import AgentClient
from api_client.errors import StoreUnavailable
from tests.support.agents import GATES, LEDGER
from tests.support.redis_trouble import SCALE
from tests.support.sentinel import SentinelTrio
from tests.support.workers import Ledger, WorkerProcess, eventually, running

FAILOVER_S = 30.0
"""From the primary's death to the first job that is accepted and done."""


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[SentinelTrio]:
    """A primary, a replica, three sentinels."""
    with SentinelTrio(tmp_path / "redis") as trio:
        yield trio


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """What the tools and models of this test's workers do."""
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def worker(trio: SentinelTrio, ledger: Ledger, tmp_path: Path) -> Iterator[WorkerProcess]:
    """Store, broker and result backend from the one URL."""
    env = {LEDGER: str(ledger.path), GATES: str(tmp_path), "STEPKEEPER_WAIT_REPLICAS": "1"}
    with running(trio.url, env=env) as worker:
        yield worker


def accepted(client: AgentClient, words: str, key: str) -> str:
    """The id of a job that was accepted; submitted again under its key until it was."""

    def submitted() -> str:
        try:
            return client.submit("plan", words, check_agent=False, idempotency_key=key)
        except StoreUnavailable:
            return ""

    job_id: str = eventually(submitted, f"job {key} is accepted", FAILOVER_S)
    return job_id


def test_every_accepted_job_survives_a_failover(
    trio: SentinelTrio, worker: WorkerProcess, ledger: Ledger
) -> None:
    """Accepted means: a replica has it (``wait_replicas``). The replica becomes the primary."""
    client = AgentClient(trio.url, wait_replicas=1)
    words = "look put look+put " * 4
    jobs = [accepted(client, f"{words}@{n}", str(n)) for n in range(12 * SCALE)]
    ledger.wait("model", count=10)
    old = trio.primary_port
    trio.primary.kill()
    died = time.monotonic()
    # The replica that is left has none of its own to wait for.
    alone = AgentClient(trio.url)
    first = accepted(alone, "look @first", "first")
    assert alone.result(first, timeout_s=60) == "look 1"
    assert time.monotonic() - died < FAILOVER_S
    assert trio.primary_port not in (0, old)
    for job_id in jobs:
        assert client.result(job_id, timeout_s=60).startswith("look 1; put 2")
    for job_id in jobs:
        committed = [e.data["i"] for e in client.trace(job_id) if "i" in e.data]
        assert committed == list(range(2, 2 + len(committed)))
    assert worker.process.poll() is None


def test_a_job_that_no_replica_has_is_not_accepted(trio: SentinelTrio) -> None:
    """The caller is told, and submits it again under its key: still one job."""
    client = AgentClient(trio.url, wait_replicas=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="only 1 of 2 replicas"):
            client.submit("plan", "look", check_agent=False, idempotency_key="k")
    content = AgentClient(trio.url, wait_replicas=1)
    job_id = content.submit("plan", "look", check_agent=False, idempotency_key="k")
    assert content.get(job_id).status == "queued"
    assert trio.replica is not None
    os.kill(trio.replica.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable, match="only 0 of 1 replicas"):
            AgentClient(trio.url, wait_replicas=1).submit(
                "plan", "look", check_agent=False, idempotency_key="k"
            )
    finally:
        os.kill(trio.replica.pid, signal.SIGCONT)
