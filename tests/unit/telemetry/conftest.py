"""A runner on a store in memory, and an observer that notes everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from api_client.contract import JobSpec, Signal
from worker.agent import Agent, by_name
from worker.ends import SliceEnd
from worker.inline import _Unrenewed
from worker.runner import Runner, RunnerSettings
from worker.store.memory import MemoryStore
from worker.telemetry.observer import Call, Moment, Observer


class Noting(Observer):
    """Keeps every moment, and each call's begin and end."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.calls: list[tuple[str, Call]] = []

    def note(self, moment: Moment) -> None:
        """See ``Observer``."""
        self.moments.append(moment)

    @contextmanager
    def calling(self, call: Call) -> Iterator[None]:
        """See ``Observer``."""
        self.calls.append(("begin", call))
        try:
            yield
        finally:
            self.calls.append(("end", call))

    def kinds(self) -> list[str]:
        """The moments' names."""
        return [type(moment).__name__ for moment in self.moments]


class Lab:
    """Runs slices of one agent's jobs, watched by one observer."""

    def __init__(self, agent: Agent, observer: Observer, **settings: Any) -> None:
        self.now = 1_700_000_000_000
        self.store = MemoryStore(lambda: self.now)
        self.runner = Runner(
            store=self.store,
            agents=by_name([agent]),
            owner="w@lab/boot/1/",
            leases=_Unrenewed(self.store, 0),
            clock_ms=self._tick,
            default_model=lambda: pytest.fail("this agent has a model"),
            settings=RunnerSettings(**settings),
            observer=observer,
        )
        self._agent = agent
        self._ticks = 0

    def _tick(self) -> int:
        """A clock that moves by five milliseconds whenever somebody looks."""
        self._ticks += 5
        return self._ticks

    def submit(self, input: Any = "go", job_id: str = "job-1", **fields: Any) -> JobSpec:
        """Accept a job."""
        spec = JobSpec(job_id=job_id, agent=self._agent.name, input=input, **fields)
        self.store.create(spec)
        return spec

    def slice(self, job_id: str = "job-1") -> SliceEnd:
        """Run one slice."""
        return self.runner.run(job_id)

    def answer(self, decision: Signal, job_id: str = "job-1") -> None:
        """Close the open pause."""
        pause = self.store.read(job_id).pause
        assert pause is not None
        self.store.signal(job_id, pause.id, decision, "s1")


@pytest.fixture
def noting() -> Noting:
    """An observer that notes everything."""
    return Noting()


@pytest.fixture
def make_lab() -> Callable[..., Lab]:
    """Makes labs."""
    return Lab
