"""Many jobs at one limit, simulated: how much of it is used, and by whom."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from itertools import count

from worker.flow.base import SOON_MS, Ask, Granted, Limit, Settled, Wait
from worker.flow.memory import MemoryLedger

MINUTE = 60_000


@dataclass
class Simulation:
    """Jobs of tenants that each make some calls, on workers that sweep once a second."""

    limit: Limit
    call_ms: int = 2000
    now: float = 0
    asks: int = 0
    grants: list[tuple[float, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = MemoryLedger(lambda: self.now)
        self._dice = random.Random(7)
        self._agenda: list[tuple[float, int, str, str, str, int]] = []
        self._number = count()

    def submit(self, at: float, tenant: str, job: str, calls: int = 1) -> None:
        self._push(at, "ask", tenant, job, calls)

    def _push(self, at: float, act: str, tenant: str, job: str, calls: int) -> None:
        heapq.heappush(self._agenda, (at, next(self._number), act, tenant, job, calls))

    def run(self, until: float) -> None:
        while self._agenda and self._agenda[0][0] <= until:
            self.now, number, act, tenant, job, calls = heapq.heappop(self._agenda)
            if act == "ask":
                self._ask(number, tenant, job, calls)
            else:
                self.ledger.settle("m", Settled(act, 0, 0, self.call_ms))
                if calls:
                    self._push(self.now, "ask", tenant, job, calls)

    def _ask(self, number: int, tenant: str, job: str, calls: int) -> None:
        self.asks += 1
        verdict = self.ledger.reserve("m", self.limit, Ask(f"call-{number}", job, tenant, 0))
        if isinstance(verdict, Granted):
            self.grants.append((self.now, tenant, job))
            self._push(self.now + self.call_ms, f"call-{number}", tenant, job, calls - 1)
        else:
            assert isinstance(verdict, Wait)
            lag = 0 if verdict.ms < SOON_MS else self._dice.uniform(0, 1500)
            self._push(self.now + verdict.ms + lag, "ask", tenant, job, calls)


def test_a_rate_is_used_up_and_not_exceeded() -> None:
    simulation = Simulation(Limit(rpm=60))
    for number in range(500):
        simulation.submit(0, "a", f"a{number}")
    simulation.run(6 * MINUTE)
    assert 0.9 * 6 * 60 <= len(simulation.grants) <= 7 * 60
    assert simulation.asks <= 4 * len(simulation.grants)


def test_places_in_flight_are_used_up() -> None:
    simulation = Simulation(Limit(in_flight=10))
    for number in range(1000):
        simulation.submit(0, "a", f"a{number}")
    simulation.run(2 * MINUTE)
    assert len(simulation.grants) >= 0.8 * 10 * 2 * MINUTE / simulation.call_ms
    assert simulation.asks <= 8 * len(simulation.grants)


def test_one_job_of_a_tenant_does_not_wait_behind_anothers_thousand() -> None:
    simulation = Simulation(Limit(rpm=60))
    for number in range(1000):
        simulation.submit(0, "a", f"a{number}")
    simulation.submit(3 * MINUTE, "b", "b0")
    simulation.run(5 * MINUTE)
    when = next(at for at, tenant, _ in simulation.grants if tenant == "b")
    before = [g for g in simulation.grants if 3 * MINUTE <= g[0] < when and g[1] == "a"]
    assert len(before) <= 8


def test_tenants_with_many_jobs_share_alike() -> None:
    simulation = Simulation(Limit(rpm=120))
    for number in range(2000):
        simulation.submit(0, "big", f"big{number}")
    for number in range(400):
        simulation.submit(MINUTE, "small", f"small{number}")
    simulation.run(4 * MINUTE)
    late = [tenant for at, tenant, _ in simulation.grants if at > 2 * MINUTE]
    share = late.count("small") / len(late)
    assert 0.4 <= share <= 0.6


def test_jobs_of_one_tenant_come_in_their_order() -> None:
    simulation = Simulation(Limit(rpm=60))
    for number in range(300):
        simulation.submit(number, "a", f"a{number:03}")
    simulation.run(6 * MINUTE)
    places = [int(job[1:]) for _, _, job in simulation.grants]
    assert all(abs(place - at) <= 20 for at, place in enumerate(places))
