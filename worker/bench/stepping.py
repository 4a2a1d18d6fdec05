"""Running one job of so many steps in this process, on the store and the slices of a worker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from api_client.connection import connect
from api_client.contract import JobSpec, JobStatus
from api_client.errors import StepkeeperError
from worker.agent import Agent
from worker.bench.counting import counted
from worker.bench.load import STEPPING, TASK, InstantModel, stepping_agent
from worker.bench.room import Room
from worker.ends import Ended, HandedOver
from worker.leases import Leases
from worker.runner import Runner, RunnerSettings
from worker.store.base import CheckpointStore
from worker.telemetry.stores import WatchedStore
from worker.tools.base import Effects

ONE_SLICE = 1_000_000
DEFAULT_SLICE = RunnerSettings().slice_steps
LEASE_MS = 600_000
"""Long enough that no renewal falls into a measurement."""


class JobFailed(StepkeeperError):
    """A job of the benchmark did not come to its end: its times would mean nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one job took.

    Attributes:
        seconds: from the claim to the settlement.
        steps_s: of each step, from a request to the model to the next.
        trips: round trips from the first request to the last.
    """

    job_id: str
    seconds: float
    steps_s: list[float]
    trips: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A job that is accepted and has not begun."""

    job_id: str
    runner: Runner
    model: InstantModel

    def run(self) -> Run:
        """Claim it, run it to its end.

        Raises:
            JobFailed: it did not succeed.
        """
        begin = time.perf_counter()
        _run_to_end(self.runner, self.job_id)
        seconds = time.perf_counter() - begin
        asked, sent = self.model.asked, self.model.sent
        steps_s = [later - earlier for earlier, later in pairwise(asked)]
        return Run(self.job_id, seconds, steps_s, sent[-1] - sent[0])


@dataclass(frozen=True, slots=True)
class Stepper:
    """Runs jobs on one server, one after the other."""

    here: Room
    store: WatchedStore
    leases: Leases

    def ready(self, k: int, *, effects: Effects = "safe", slice_steps: int = ONE_SLICE) -> Ready:
        """Submit a job of K steps to the emptied server; its keys stay until the next."""
        self.here.empty()
        model = InstantModel(k)
        job_id = str(uuid.uuid4())
        self.store.create(JobSpec(job_id=job_id, agent=STEPPING, input=TASK))
        agent = stepping_agent(model, effects)
        return Ready(job_id, make_runner(self.store, self.leases, agent, slice_steps), model)

    def run(self, k: int, *, effects: Effects = "safe", slice_steps: int = ONE_SLICE) -> Run:
        """Submit a job and run it; raises what ``Ready.run`` does."""
        return self.ready(k, effects=effects, slice_steps=slice_steps).run()


def make_runner(
    store: CheckpointStore, leases: Leases, agent: Agent, slice_steps: int = DEFAULT_SLICE
) -> Runner:
    """What runs the slices of one agent's jobs in this process, as a worker has it."""
    model = agent.model
    assert model is not None
    return Runner(
        store=store,
        agents={agent.name: agent},
        owner="bench/boot/1/",
        leases=leases,
        clock_ms=lambda: time.monotonic_ns() // 1_000_000,
        default_model=lambda: model,
        settings=RunnerSettings(lease_ms=LEASE_MS, slice_steps=slice_steps),
    )


@contextmanager
def stepper(here: Room) -> Iterator[Stepper]:
    """A stepper with connections of its own, whose round trips are counted."""
    with counted(connect(here.url)) as client:
        store = WatchedStore(client)
        yield Stepper(here, store, Leases(store, LEASE_MS))


def _run_to_end(runner: Runner, job_id: str) -> None:
    end = runner.run(job_id)
    while isinstance(end, HandedOver):
        end = runner.run(job_id)
    if not isinstance(end, Ended) or end.status is not JobStatus.SUCCEEDED:
        raise JobFailed(f"a job of the benchmark came to {type(end).__name__}, not to success")
