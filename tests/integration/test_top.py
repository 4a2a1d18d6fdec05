"""``stepkeeper top``: what it shows of a real store."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import redis

from api_client.admin import AdminStore
from api_client.contract import JobSpec, JobStatus
from api_client.tenants import TenantPolicy
from tests.support.paused import paused_job
from worker.cli import failures, main, top
from worker.flow.base import Ask, Limit
from worker.flow.redis import RedisLedger
from worker.store.redis import RedisCheckpointStore

Said = tuple[int, str, str]


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        yield client


@pytest.fixture
def stepkeeper(
    redis_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Said]:
    """Runs a command; returns exit code, output and errors."""
    monkeypatch.setenv("STEPKEEPER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "160")

    def run(*words: str) -> Said:
        code = main(words)
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def store(redis_url: str) -> RedisCheckpointStore:
    """The same store."""
    return RedisCheckpointStore.from_url(redis_url)


def test_top_shows_jobs_and_why_they_wait(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore
) -> None:
    paused_job(store, "waits")
    store.create(JobSpec(job_id="runs", agent="shop", input="a task\nof two lines"))
    store.claim("runs", owner="w1@host/b/1/", nonce="n", lease_ms=60_000, max_tries=5)
    code, out, err = stepkeeper("top", "--once")
    assert (code, err) == (failures.OK, "")
    assert "1 running" in out
    assert "1 paused" in out
    assert "w1@host  1 of ?" in out
    assert [
        line.split()[:4] for line in out.splitlines() if line.startswith(("runs", "waits"))
    ] == [
        ["runs", "shop", "running", "w1@host"],
        ["waits", "shop", "paused", "hand_to_human"],
    ]
    value = json.loads(stepkeeper("top", "--json")[1])
    assert value["jobs"]["running"] == value["jobs"]["paused"] == 1
    assert value["workers"] == [{"node": "w1@host", "concurrency": 0, "running": 1}]
    assert {job["job_id"] for job in value["shown"]} == {"runs", "waits"}


def test_top_of_an_empty_store_says_that_nobody_works(stepkeeper: Callable[..., Said]) -> None:
    out = stepkeeper("top", "--once")[1]
    assert "no jobs" in out
    assert "no worker answers" in out


def test_top_shows_tenants_and_the_limits_of_models(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore, client: Any
) -> None:
    store.set_policy("acme", TenantPolicy(weight=2.5, concurrency=4, backlog=500))
    store.set_policy("idle", TenantPolicy(weight=9))
    for number in range(3):
        store.create(JobSpec(job_id=f"a{number}", agent="shop", input="x", tenant="acme"))
    store.create(JobSpec(job_id="b", agent="shop", input="x", tenant="bolt"), 60_000)
    store.create(JobSpec(job_id="b2", agent="shop", input="x", tenant="bolt"))
    store.claim("a0", owner="w1@host/b/1/", nonce="n", lease_ms=60_000, max_tries=5)
    ledger = RedisLedger(client)
    limit = Limit(rpm=1, tpm=5000, in_flight=8)
    ledger.set_limit("api.test/small", limit)
    ledger.reserve("api.test/small", limit, Ask("c1", "a0", "acme", 1200))
    ledger.reserve("api.test/small", limit, Ask("c2", "a1", "acme", 1200))
    rows = [" ".join(line.split()) for line in stepkeeper("top", "--once")[1].splitlines()]
    assert rows[rows.index("tenant weight running queued waiting backlog") + 1 :][:3] == [
        "acme 2.5 1 of 4 2 0 2 of 500",
        "bolt 1 0 1 1 2",
        "",
    ]
    head = rows.index("model requests tokens in flight waiting closed")
    assert rows[head + 1] == "api.test/small 1 of 1 1,200 of 5,000 1 of 8 1"
    value = json.loads(stepkeeper("top", "--json")[1])
    assert [(one["name"], one["running"], one["ready"]) for one in value["tenants"]] == [
        ("acme", 1, 2),
        ("bolt", 0, 1),
    ]
    [model] = value["models"]
    assert (model["key"], model["set_by"]) == ("api.test/small", "command")
    assert (model["use"]["requests"], model["use"]["waiting"]) == (1, 1)


def test_top_shows_the_busiest_tenants_and_counts_the_others(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore
) -> None:
    for number in range(12):
        store.create(JobSpec(job_id=f"j{number}", agent="shop", input="x", tenant=f"t{number:02}"))
    store.create(JobSpec(job_id="more", agent="shop", input="x", tenant="t11"))
    lines = stepkeeper("top", "--once")[1].splitlines()
    shown = [line.split()[0] for line in lines if line.startswith("t") and line[1:3].isdigit()]
    assert shown == ["t11", *(f"t{number:02}" for number in range(9))]
    assert "and 2 more tenants" in lines


def test_tokens_a_second_are_those_of_two_looks() -> None:
    views = {"a": 100, "b": 50}

    class Store:
        """Two running jobs."""

        def list_jobs(self, status: JobStatus, limit: int) -> list[Any]:
            """Only running ones."""
            return [job(name, n) for name, n in views.items()] if status == "running" else []

        def survey(self) -> Any:
            """Nothing else."""
            return None

        def tenants(self) -> Any:
            """None."""
            return []

    def job(name: str, tokens: int) -> Any:
        from api_client.contract import JobView

        return JobView.model_validate(
            {
                "spec": {"job_id": name, "agent": "x", "input": "x"},
                "status": "running",
                "created": 0,
                "worker": "w@h/b/1/",
                "usage": {"prompt_tokens": tokens},
            }
        )

    now, store = 10.0, cast("AdminStore", Store())
    watcher = top.Watcher(store, list, {"w@h": 4}, clock=lambda: now)
    assert watcher.look().tokens_per_s is None
    now, views = 12.0, {"a": 300, "c": 900}
    look = watcher.look()
    assert look.tokens_per_s == 100
    assert (look.workers, look.running) == ({"w@h": 4}, {"w@h": 2})


def test_top_goes_on_until_it_is_interrupted(redis_url: str, store: RedisCheckpointStore) -> None:
    """On a terminal it draws again and again; Ctrl-C ends it."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    with subprocess.Popen(
        [sys.executable, "-m", "worker.cli", "top", "--every", "0.2", "--redis-url", redis_url],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        # A test that runs in the background has SIGINT ignored, and would hand that down.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        os.close(theirs)
        shown = _read_until(ours, "no jobs")
        paused_job(store, "waits")
        shown += _read_until(ours, "hand_to_human")
        process.send_signal(signal.SIGINT)
        code = process.wait(30)
    os.close(ours)
    assert code == failures.INTERRUPTED, shown


def _read_until(terminal: int, text: str) -> str:
    """What a program writes on its terminal, up to this text."""
    shown = ""
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], 30)
        assert ready, shown
        shown += os.read(terminal, 65536).decode(errors="replace")
    return shown
