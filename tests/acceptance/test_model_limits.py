"""Limits of a model that real workers share, as the model's server sees them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.counting_model import CountingModel
from tests.support.lab import Lab
from tests.support.workers import eventually
from worker.devserver import ModelServer
from worker.devserver.faults import Fault
from worker.flow.base import SLICES, Limit
from worker.flow.redis import RedisLedger

MINUTE_S = 5.0
UNDER_WAY_S = 1.0
"""For so long a call of a worker that has made others is under way to the server, at most."""
LATE_S = 5.0
"""A job comes back at the time that it was given, and some time later on machines that are busy."""
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
    """Workers that ask the server's model, and the ledger of their calls.

    Attributes:
        grants: requests that were granted in each part of a minute, as far as they were noted.
    """

    def __init__(self, lab: Lab, server: ModelServer, minute_s: float = MINUTE_S) -> None:
        self.lab = lab
        self.key = f"127.0.0.1:{server.port}/counting"
        self.ledger = RedisLedger(lab.redis, minute_ms=int(minute_s * 1000))
        self.grants: dict[int, int] = {}
        self._use = f"{{sk:f:{self.key}}}:u"
        self.env = {
            "LLM_BASE_URL": server.base_url,
            "LLM_API_KEY": "k",
            "LLM_MODEL": "counting",
            "STEPKEEPER_LIMITS_MINUTE_S": str(minute_s),
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
        tasks = [tenant or "go"] * count
        return self.lab.client.submit_many("limited", tasks, tenant=tenant, check_agent=False)

    def warm(self, model: CountingModel, count: int) -> None:
        """Let workers make their first calls, which take longer to arrive, and forget them."""
        self.wait(self.submit(count))
        self.lab.redis.delete(self._use)
        model.forget()

    def note(self) -> None:
        """Note what is granted before it is forgotten."""
        for part, text in self.lab.redis.hgetall(self._use).items():
            requests = int(text.split()[0])
            self.grants[int(part)] = max(requests, self.grants.get(int(part), 0))

    def has_made(self, model: CountingModel, count: int) -> bool:
        """Whether so many calls have come; notes what was granted meanwhile."""
        self.note()
        return len(model.starts) >= count

    @property
    def most_granted(self) -> int:
        """The most requests that were granted in any minute, wherever it begins."""
        ends = range(min(self.grants), max(self.grants) + 1)
        return max(sum(self.grants.get(end - n, 0) for n in range(SLICES + 1)) for end in ends)

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


def test_no_minute_of_the_models_clock_has_more_requests_than_the_limit(
    lab: Lab, server: ModelServer, model: CountingModel
) -> None:
    """A whole minute, and what begins behind it, over two workers."""
    bench, rpm, at_once = Bench(lab, server, minute_s=60), 24, 4
    bench.ledger.set_limit(bench.key, Limit(rpm=rpm, in_flight=at_once))
    bench.workers("threads", "threads")
    bench.warm(model, 16)
    jobs = bench.submit(40)
    eventually(partial(bench.has_made, model, rpm + 5), "the second minute begins", 100)
    assert bench.most_granted == rpm, "no more, and no fewer while jobs wait"
    assert model.most <= at_once
    assert model.most_within(60) <= rpm + at_once, "those that were under way when it began"
    assert model.most_within(60 - UNDER_WAY_S) == rpm
    began = model.starts[0]
    assert model.starts[rpm - 1] - began < 30, "a minute's requests do not wait for one another"
    assert 60 - UNDER_WAY_S <= model.starts[rpm] - began < 60 + 60 / SLICES + LATE_S
    for job in jobs:
        lab.client.cancel(job)


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


def test_few_jobs_of_a_tenant_alternate_with_anothers_many(
    bench: Bench, model: CountingModel
) -> None:
    bench.ledger.set_limit(bench.key, Limit(rpm=8))
    bench.workers("threads", "threads")
    busy = bench.submit(40, tenant="busy")
    eventually(lambda: bench.ledger.use(bench.key).waiting >= 28, "most of them wait")
    before = len(model.tasks)
    single = bench.submit(6, tenant="single")
    bench.wait(single)
    since = model.tasks[before:]
    between = since[since.index("single") : len(since) - since[::-1].index("single")]
    assert since.index("single") <= 3, since
    by = Counter(between)
    assert by["single"] - 3 <= by["busy"] <= by["single"] + 2, since
    for job in busy:
        bench.lab.client.cancel(job)
    eventually(lambda: bench.ledger.use(bench.key).waiting == 0, "cancelled jobs wait no more")
