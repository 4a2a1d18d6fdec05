"""Ten thousand jobs that are due in an hour cost nobody anything until then (H4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lab import Lab
from tests.support.nursery import Nursery
from worker.embedded import EmbeddedServer

COUNT = 10_000
HOUR_S = 3600.0
GROWTH_MB = 20
PROMPT_S = 10.0


@pytest.fixture
def quick_lab(nursery: Nursery, tmp_path: Path) -> Iterator[Lab]:
    """A lab whose Redis does not wait for the disk."""
    folder = tmp_path / "lab"
    folder.mkdir()
    with EmbeddedServer(tmp_path / "valkey", appendfsync="no") as server:
        lab = Lab(nursery, server.url, folder)
        yield lab
        lab.close()


def resident_mb(pid: int) -> float:
    """Memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (resident,) = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(resident) / 1024


def test_jobs_that_wait_for_their_time_are_nobodys_burden(quick_lab: Lab) -> None:
    """No message, no memory, no early start; and what is due now does not wait behind them."""
    lab = quick_lab
    worker = lab.worker(env={"STEPKEEPER_HINT_CAP_S": "1"})
    lab.client.result(lab.submit("look @warm"), timeout_s=30)
    before = resident_mb(worker.pid)
    for _ in range(COUNT):
        lab.submit("look @early", delay_s=HOUR_S)
    assert lab.client.result(lab.submit("look @prompt"), timeout_s=PROMPT_S) == "look 1"
    soon = lab.submit("look @soon", delay_s=1.0)
    assert lab.client.result(soon, timeout_s=PROMPT_S) == "look 1"
    due = lab.view(soon).created + 1000
    (began,) = lab.ledger.entries("model", tag="soon")[:1]
    assert began["at"] * 1000 >= due
    assert lab.ledger.entries("model", tag="early") == []
    assert lab.redis.zcard("{sk:0}:is:waiting") == COUNT
    assert lab.redis.llen("celery") == 0
    assert lab.redis.hlen("unacked") == 0
    assert resident_mb(worker.pid) - before < GROWTH_MB
