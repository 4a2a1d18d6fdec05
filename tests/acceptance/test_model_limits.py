"""Limits of a model that real workers share, as the model's server sees them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.counting_model import CountingModel
from tests.support.lab import Lab
from tests.support.workers import eventually
from worker.devserver import ModelServer
from worker.devserver.faults import Fault
from worker.flow.base import Limit
from worker.flow.redis import RedisLedger

MINUTE_S = 5.0
TOLERANCE_S = 2.0
"""Calls reach the server some time after they were granted, on machines that are busy."""


@pytest.fixture
def model() -> CountingModel:
    return CountingModel(0.15)


@pytest.fixture
def server(model: CountingModel) -> Iterator[ModelServer]:
    with ModelServer(model) as server:
        yield server


class Bench:
    """Workers that ask the server's model, and the ledger of their calls."""

    def __init__(self, lab: Lab, server: ModelServer) -> None:
        self.lab = lab
        self.key = f"127.0.0.1:{server.port}/counting"
        self.ledger = RedisLedger(lab.redis, minute_ms=int(MINUTE_S * 1000))
        self.env = {
            "LLM_BASE_URL": server.base_url,
            "LLM_API_KEY": "k",
            "LLM_MODEL": "counting",
            "STEPKEEPER_LIMITS_MINUTE_S": str(MINUTE_S),
            "STEPKEEPER_LEASE_S": "30",  # a busy machine must not make a second runner of a job
        }

    def workers(self, *pools: str, **env: str) -> None:
        starting = [
            self.lab.start(
                f"w{number}@test",
                agents="tests.support.limited_agents",
                pool=pool,
                env={**self.env, **env},
            )
            for number, pool in enumerate(pools)
        ]
        for worker in starting:
            worker.wait_ready()

    def submit(self, count: int, tenant: str = "") -> list[str]:
        client = self.lab.client
        return [
            client.submit("limited", "go", tenant=tenant, check_agent=False) for _ in range(count)
        ]

    def wait(self, jobs: list[str]) -> None:
        for job in jobs:
            assert self.lab.client.result(job, 60) == "ok"


@pytest.fixture
def bench(lab: Lab, server: ModelServer) -> Bench:
    return Bench(lab, server)


@pytest.mark.parametrize(
    ("pools", "in_flight"), [(("threads", "prefork"), "0"), (("threads", "threads"), "50")]
)
def test_two_workers_keep_one_limit(
    bench: Bench, model: CountingModel, pools: tuple[str, ...], in_flight: str
) -> None:
    bench.ledger.set_limit(bench.key, Limit(rpm=6, in_flight=2))
    bench.workers(*pools, STEPKEEPER_IN_FLIGHT=in_flight)
    jobs = bench.submit(12)
    bench.wait(jobs)
    assert len(model.starts) == 12
    assert model.most <= 2
    assert model.most_within(MINUTE_S - TOLERANCE_S) <= 6
    assert model.starts[-1] - model.starts[0] >= MINUTE_S - TOLERANCE_S
    held = [job for job in jobs if bench.lab.events(job, "held_back")]
    assert held, "12 calls at 6 in five seconds, and no job had to give its worker back"
    [first, *_] = bench.lab.events(held[0], "held_back")
    assert bench.key in str(first.data["text"])
    assert bench.lab.view(held[0]).status == "succeeded"
    assert eventually(lambda: bench.ledger.use(bench.key).in_flight == 0, "all are settled")


def test_a_limit_set_while_jobs_run_holds_soon(bench: Bench, model: CountingModel) -> None:
    bench.workers("threads", "prefork")
    bench.wait(bench.submit(2))
    bench.ledger.set_limit(bench.key, Limit(in_flight=1))
    asked = time.monotonic()
    while time.monotonic() < asked + 20:
        model.most = 0
        bench.wait(bench.submit(6))
        if model.most == 1:
            return
    raise AssertionError(f"after 20 s there are still {model.most} calls at once")


def test_a_place_of_a_killed_worker_is_taken_by_another(bench: Bench, model: CountingModel) -> None:
    bench.ledger.set_limit(bench.key, Limit(in_flight=1))
    model.held = True
    env = {**bench.env, "STEPKEEPER_LEASE_S": "3"}
    first = bench.lab.worker("w1@test", agents="tests.support.limited_agents", env=env)
    jobs = bench.submit(1)
    eventually(lambda: model.now == 1, "the call has begun")
    first.kill()
    model.held = False
    eventually(lambda: model.now == 0, "the server has let go")
    bench.workers("threads", STEPKEEPER_LEASE_S="3")
    began = time.monotonic()
    bench.wait(jobs + bench.submit(1))
    assert time.monotonic() - began < 20  # far less than a call may take; the lease is 3 s


def test_a_429_closes_the_model_for_all_workers(
    bench: Bench, server: ModelServer, model: CountingModel
) -> None:
    bench.ledger.set_limit(bench.key, Limit(in_flight=1))
    server.faults.append(Fault.status(429, "slow down", headers={"retry-after": "3"}))
    bench.workers("threads", "threads")
    jobs = bench.submit(8)
    server.wait_for(1)
    refused = time.monotonic()
    bench.wait(jobs)
    assert min(model.starts) >= refused + 3 - TOLERANCE_S
    assert server.count == 9  # nobody else has run into it
    waits = [event for job in jobs for event in bench.lab.events(job, "held_back")]
    assert any("asked all callers to wait" in str(event.data["text"]) for event in waits)


def test_one_job_of_a_tenant_does_not_wait_behind_anothers_many(
    bench: Bench, model: CountingModel
) -> None:
    bench.ledger.set_limit(bench.key, Limit(rpm=8))
    bench.workers("threads")
    busy = bench.submit(20, tenant="busy")
    eventually(lambda: bench.ledger.use(bench.key).waiting >= 12, "most of them wait")
    [single] = bench.submit(1, tenant="single")
    bench.wait([single])
    ended = [job for job in busy if bench.lab.view(job).status.ended]
    assert len(ended) < 14, "it came behind the other tenant's jobs"
    for job in busy:
        bench.lab.client.cancel(job)
    eventually(lambda: bench.ledger.use(bench.key).waiting == 0, "cancelled jobs wait no more")
