"""A fleet on paper: many workers, many tenants, and what they ask of one Redis.

    python -m tests.simulation.fleet [--workers 1000] [--slots 16] [--minutes 10] [--seed 7]

A discrete simulation in simulated time. The turns of tenants are chosen by the structure that the
store in memory uses (``worker.store.turns``), which makes the same choices as the scripts on Redis.
Commands and bytes are those that ``costs.py`` has measured.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import count

from api_client.tenants import TenantPolicy
from worker.store.turns import Place, Turns

COMMANDS = {
    "submit": 27,
    "claim": 57,
    "commit": 5,
    "hand_over": 35,
    "end": 32,
    "publish": 14,
    "renew": 8,
    "sweep": 5,
}
"""Commands that the server counts for one act of a job with a tenant."""

PAUSED_BYTES = 2400
"""Of a job that waits for a person, beyond its messages."""

PAUSED_KEYS = 3

LEASE_S, SWEEP_S, ANNOUNCE_S = 15.0, 1.0, 60.0
RENEWALS_PER_LEASE = 3


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is simulated.

    Attributes:
        step_s: of a model call with its tools, on average.
        steps: of a job, on average.
        tenants: with jobs all the time, one of which has a flood of them.
        load: jobs that come, as a part of what all slots together can do.
        paused: jobs that wait for people meanwhile.
    """

    workers: int = 1000
    slots: int = 16
    minutes: float = 10.0
    step_s: float = 5.0
    steps: int = 8
    slice_steps: int = 5
    tenants: int = 50
    load: float = 0.9
    paused: int = 1_000_000
    seed: int = 7

    @property
    def all_slots(self) -> int:
        """Of all workers."""
        return self.workers * self.slots


@dataclass(slots=True)
class _Job:
    place: Place
    left: int
    submitted: float
    started: bool = False


@dataclass
class Outcome:
    """What a simulation found.

    Attributes:
        acts: how often each script ran.
        commands_s: commands a second, by act.
        waits_s: the median and the longest wait for the first slice, of small and large tenants.
        shares: steps of each of two tenants that have enough jobs all the time.
    """

    acts: dict[str, int]
    commands_s: dict[str, float]
    waits_s: dict[str, tuple[float, float]]
    shares: dict[str, int]
    ended: int
    paused_keys: int
    paused_bytes: int

    @property
    def all_commands_s(self) -> float:
        """Commands a second, all together."""
        return sum(self.commands_s.values())


@dataclass
class Simulation:
    """One run; the same seed always gives the same."""

    fleet: Fleet
    weights: Mapping[str, float] = field(default_factory=lambda: {"flood": 1.0})

    def __post_init__(self) -> None:
        self.random = random.Random(self.fleet.seed)
        self.turns = Turns()
        self.turns.slots, self.turns.agents = {"q": self.fleet.all_slots}, {"shop": "q"}
        for name, weight in self.weights.items():
            self.turns.set_policy(name, TenantPolicy(weight=weight))
        self.now = 0.0
        self.free = self.fleet.all_slots
        self.queue: list[str] = []
        self.jobs: dict[str, _Job] = {}
        self.acts: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.waits: defaultdict[str, list[float]] = defaultdict(list)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def at(self, delay_s: float, act: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._events, (self.now + delay_s, next(self._numbers), act))

    def submit(self, tenant: str, steps: int) -> None:
        """A job comes."""
        job_id = f"j{next(self._numbers)}"
        place = Place(job_id, tenant, "shop", created=int(self.now * 1000))
        self.jobs[job_id] = _Job(place, max(1, steps), self.now)
        self.acts["submit"] += 1
        self.turns.line_up(place)
        self._hint(self.turns.fill_window("q", 0, place))

    def _hint(self, places: list[Place]) -> None:
        self.queue.extend(place.job_id for place in places)
        while self.free and self.queue:
            self._claim(self.queue.pop(0))

    def _claim(self, job_id: str) -> None:
        job = self.jobs[job_id]
        self.free -= 1
        self.acts["claim"] += 1
        self.turns.take_turn(job.place)
        if not job.started:
            job.started = True
            self.waits[job.place.tenant].append(self.now - job.submitted)
        steps = min(job.left, self.fleet.slice_steps)
        took = sum(self.random.expovariate(1 / self.fleet.step_s) for _ in range(steps))
        self.at(took, lambda: self._settle(job, steps))
        self._hint(self.turns.fill_window("q", 0))

    def _settle(self, job: _Job, steps: int) -> None:
        job.left -= steps
        self.free += 1
        self.steps[job.place.tenant] += steps
        self.acts["commit"] += 2 * steps - 1
        self.turns.charge_slice(job.place, steps)
        self.turns.step_out(job.place)
        if job.left:
            self.acts["hand_over"] += 1
            self.turns.line_up(job.place)
        else:
            self.acts["end"] += 1
            self.acts["publish"] += 1
            del self.jobs[job.place.job_id]
        self._hint(self.turns.fill_window("q", 0))

    def run(self) -> Outcome:
        """Simulate, and count."""
        end = self.fleet.minutes * 60
        self._begin()
        while self._events and self._events[0][0] <= end:
            self.now, _, act = heapq.heappop(self._events)
            act()
        self.acts["sweep"] = int(self.fleet.workers * end / SWEEP_S)
        self.acts["renew"] = int(self.fleet.all_slots * end * RENEWALS_PER_LEASE / LEASE_S)
        return self._outcome(end)

    def _begin(self) -> None:
        """A flood of jobs of one tenant, then steady arrivals of all others."""
        fleet = self.fleet
        for _ in range(4 * fleet.all_slots):
            self.submit("flood", fleet.steps)
        per_s = fleet.load * fleet.all_slots / (fleet.steps * fleet.step_s)
        for number in range(fleet.tenants):
            self._arrive(f"t{number}", fleet.tenants / per_s)

    def _arrive(self, tenant: str, every_s: float) -> None:
        def come() -> None:
            self.submit(tenant, int(self.random.expovariate(1 / self.fleet.steps)) + 1)
            self._arrive(tenant, every_s)

        self.at(self.random.expovariate(1 / every_s), come)

    def _outcome(self, end: float) -> Outcome:
        small = [wait for name, waits in self.waits.items() if name != "flood" for wait in waits]
        return Outcome(
            acts=dict(self.acts),
            commands_s={act: n * COMMANDS[act] / end for act, n in self.acts.items()},
            waits_s={"small": _spread(small), "flood": _spread(self.waits["flood"])},
            shares=dict(self.steps),
            ended=self.acts["end"],
            paused_keys=self.fleet.paused * PAUSED_KEYS,
            paused_bytes=self.fleet.paused * PAUSED_BYTES,
        )


def _spread(waits: list[float]) -> tuple[float, float]:
    ordered = sorted(waits) or [0.0]
    return round(ordered[len(ordered) // 2], 2), round(ordered[-1], 2)


def main(arguments: list[str]) -> int:
    """Print what a fleet asks of Redis, as JSON."""
    parser = argparse.ArgumentParser(description="A fleet on paper.")
    for name, kind in (("workers", int), ("slots", int), ("minutes", float), ("seed", int)):
        parser.add_argument(f"--{name}", type=kind, default=getattr(Fleet(), name))
    parser.add_argument("--load", type=float, default=Fleet().load)
    found = Simulation(Fleet(**vars(parser.parse_args(arguments)))).run()
    said = asdict(found) | {"all_commands_s": round(found.all_commands_s)}
    said["commands_s"] = {act: round(n) for act, n in found.commands_s.items()}
    said["shares"] = {"flood": found.shares["flood"], "all": sum(found.shares.values())}
    sys.stdout.write(json.dumps(said, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
