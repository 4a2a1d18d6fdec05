"""SIGKILL at every commit point, for every class of side effects: one way of running at a time.

One job goes through everything: a tool, a question to a person, an answer. It is killed once, and
must end as if nothing had happened. A worker that dies is started again under its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from celery.result import AsyncResult

from api_client.contract import JobView
from tests.support.lab import Lab, Supervisor
from tests.support.nursery import Nursery
from tests.support.workers import eventually
from worker.embedded import EmbeddedServer
from worker.texts import ENGLISH

EFFECTS = {"safe": "look", "idempotent": "put", "once": "pay"}
ENV: dict[str, dict[str, str]] = {
    "threads": {},
    "threads-in-flight": {"STEPKEEPER_IN_FLIGHT": "4"},
    "prefork-child": {},
    "prefork-group": {},
}
"""Ways of running jobs, by the pool and what SIGKILL hits: a process, a child, a whole group."""

HUMAN = ENGLISH.human_answer("yes")
_numbers = count(1)


@dataclass(frozen=True)
class Point:
    """Where the worker dies, and what is rightly done again after it.

    Attributes:
        repeats_model: the model call, by step, whose reply had not been committed.
        repeats_effect: a call had taken effect that was not observed yet; ``once`` calls are not
            repeated: a person says that it happened.
        in_doubt: a ``once`` call was begun and not observed: a person must be asked.
    """

    when: str
    what: str
    number: int = 1
    repeats_model: int = 0
    repeats_effect: bool = False
    in_doubt: bool = False

    def __str__(self) -> str:
        return f"{self.when}-{self.what}-{self.number}"


POINTS = (
    Point("after", "claim"),
    Point("during", "model", repeats_model=1),
    Point("before", "reply", repeats_model=1),
    Point("after", "reply"),
    Point("before", "effect", in_doubt=True),
    Point("after", "effect", repeats_effect=True, in_doubt=True),
    Point("before", "observation", repeats_effect=True, in_doubt=True),
    Point("after", "observation"),
    Point("before", "reply", 2, repeats_model=2),
    Point("after", "reply", 2),
    Point("before", "paused"),
    Point("after", "paused"),
    Point("after", "claim", 2),
    Point("before", "observation", 2),
    Point("after", "observation", 2),
    Point("before", "finished", repeats_model=3),
    Point("after", "finished"),
    Point("before", "published"),
    Point("after", "published"),
)
STARTED = (Point("before", "started"), Point("after", "started", in_doubt=True))
HAPPENED = tuple(point for point in POINTS if point.repeats_effect)
CELLS = [
    pytest.param(point, effects, id=f"{point}-{effects}")
    for effects in EFFECTS
    for point in (*POINTS, *(STARTED if effects == "once" else ()))
]


@dataclass
class Job:
    """One job that is killed once.

    Attributes:
        start: which start of the worker it meets first.
    """

    site: Site
    point: Point
    tool: str
    id: str
    start: int
    result: AsyncResult[Any]

    @property
    def doubt(self) -> bool:
        """Whether a person is asked what happened."""
        return self.point.in_doubt and self.tool == "pay"


class Site:
    """Workers of one kind, and jobs that are killed there.

    Args:
        mode: a key of ``ENV``.
    """

    def __init__(self, lab: Lab, supervisor: Supervisor, mode: str) -> None:
        self.lab = lab
        self.supervisor = supervisor
        self.mode = mode
        self._ahead: dict[tuple[Point, str], tuple[Job, Future[list[str]]]] = {}

    def begin(self, point: Point, tool: str) -> Job:
        """Submit a job, by nothing but Celery, that will be killed at this point."""
        job_id = f"{tool}-{point}-{next(_numbers)}"
        target = "group" if self.mode == "prefork-group" else "process"
        self.lab.crash(job_id, point.when, point.what, number=point.number, target=target)
        start = len(self.supervisor.starts)
        return Job(self, point, tool, job_id, start, send(self.lab, tool, job_id))

    def begin_all(self, answering: Executor) -> None:
        """Begin every job at once: where only children die, jobs do not disturb each other."""
        for cell in CELLS:
            point, effects = cast("tuple[Point, str]", cell.values)
            job = self.begin(point, EFFECTS[effects])
            future = answering.submit(answer_pauses, job)
            self._ahead[point, effects] = job, future

    def live(self, point: Point, effects: str) -> tuple[Job, list[str]]:
        """A job from its beginning to its end, and the pauses that it made."""
        if self._ahead:
            job, future = self._ahead[point, effects]
            return job, future.result(timeout=60)
        job = self.begin(point, EFFECTS[effects])
        pauses = answer_pauses(job)
        self.wait_dead(job)
        return job, pauses

    def wait_dead(self, job: Job) -> None:
        """Wait until a worker has died for this job, and is back.

        A message of plain Celery that reaches a worker in the very moment of its death is lost,
        as Celery is; only what a worker has taken up is ours to keep.
        """
        eventually(lambda: self.lab.has_died(job.id), f"the worker of {job.id} has died")
        if self.mode != "prefork-child":
            self.supervisor.wait_ready(job.start + 1)


@contextmanager
def open_site(mode: str, nursery: Nursery, folder: Path) -> Iterator[Site]:
    """A store, a worker that is started again whenever it dies, and one for the callbacks.

    The store does not fsync: it is the workers that die here.
    """
    # Where everything runs at once, publishing may take a while.
    grace = "10" if mode == "prefork-child" else "2"
    slots = 8 if mode == "prefork-child" else 2
    with EmbeddedServer(folder / "valkey", appendfsync="no") as server:
        env = {"STEPKEEPER_PUBLISH_GRACE_S": grace, **ENV[mode]}
        lab = Lab(nursery, server.url, folder, env=env)
        with (
            lab.supervised(pool=mode.partition("-")[0], concurrency=slots) as supervisor,
            ThreadPoolExecutor(slots) as answering,
        ):
            lab.worker("callbacks@test", options=("--queues=callbacks",))
            site = Site(lab, supervisor, mode)
            if mode == "prefork-child":
                site.begin_all(answering)
            yield site


class CrashMatrix:
    """The tests, for one way of running jobs.

    Attributes:
        mode: a key of ``ENV``.
    """

    mode: ClassVar[str]

    @pytest.fixture(scope="class")
    @classmethod
    def site(cls, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
        """Where the jobs of this class are killed."""
        with open_site(cls.mode, nursery, tmp_path_factory.mktemp(cls.mode)) as site:
            yield site

    @pytest.mark.parametrize(("point", "effects"), CELLS)
    def test_killed_once_and_nobody_can_tell(self, site: Site, point: Point, effects: str) -> None:
        """Same answer; no reply lost or asked twice; no observation twice; one publication."""
        job, pauses = site.live(point, effects)
        eventually(lambda: site.lab.has_died(job.id), f"the worker of {job.id} has died")
        assert pauses == (["unknown_outcome"] if job.doubt else []) + ["hand_to_human"]
        expected = f"{observation(job)}; {HUMAN}"
        assert job.result.get(timeout=30) == expected
        check_published(job)
        check_stored(job, expected)
        check_model_calls(job)
        check_effects(job)

    def test_killed_before_the_claim(self, site: Site) -> None:
        """The message is gone, and nobody holds the job: a sweep finds it."""
        jobs = []
        for tool in EFFECTS.values():
            jobs.append(site.begin(Point("before", "claim"), tool))
            site.wait_dead(jobs[-1])
        for job in jobs:
            assert answer_pauses(job) == ["hand_to_human"]
            assert job.result.get(timeout=30) == f"{job.tool} 1; {HUMAN}"
            check_model_calls(job)
            check_effects(job)

    def test_callbacks_ran_once_and_errbacks_never(self, site: Site) -> None:
        """Looked at when everything above has been over for a while."""
        ran = Counter(entry["where"] for entry in site.lab.ledger.entries("task"))
        assert {job_id: times for job_id, times in ran.items() if times > 1} == {}
        assert site.lab.ledger.entries("errback") == []


# --- a job's way ---------------------------------------------------------------------------


def send(lab: Lab, tool: str, job_id: str) -> AsyncResult[Any]:
    """A tool, a question, an answer; submitted by nothing but Celery."""
    callback = {"kwargs": {"where": job_id}, "queue": "callbacks"}
    return lab.send(
        f"{tool} ask @{job_id}",
        job_id,
        link=lab.plain.signature("lab.note", **callback),
        link_error=lab.plain.signature("lab.failed", **callback),
    )


def answer_pauses(job: Job) -> list[str]:
    """Answer each pause truly, once; returns their kinds when the job has ended."""
    lab = job.site.lab
    answered: dict[str, str] = {}
    while True:
        view = lab.wait_view(
            job.id, lambda view: view.status.ended or is_new(view, answered), "pauses or ends"
        )
        if view.pause is None:
            return list(answered.values())
        if lab.has_died(job.id) or str(job.point) == "after-paused-1":
            job.site.wait_dead(job)
        answered[view.pause.id] = view.pause.kind
        lab.client.signal(job.id, answer_to(lab, view, job.tool), pause_id=view.pause.id)


def is_new(view: JobView, answered: Container[str]) -> bool:
    """Whether the job waits at a pause that has no answer yet."""
    return view.pause is not None and view.pause.id not in answered


def answer_to(lab: Lab, view: JobView, tool: str) -> dict[str, Any]:
    """What a person says who has looked into the ledger."""
    assert view.pause is not None
    if view.pause.kind == "hand_to_human":
        return {"kind": "answer", "value": "yes"}
    if lab.ledger.entries(tool, job=view.job_id):
        return {"kind": "happened", "result": f"{tool} 1, as the ledger says"}
    return {"kind": "did_not_happen"}


def observation(job: Job) -> str:
    """What the model must have read of the tool's call."""
    text = f"{job.tool} 1"
    happened = job.point in HAPPENED and job.doubt
    return ENGLISH.outcome_reported(f"{text}, as the ledger says") if happened else text


# --- what must be true in the end ----------------------------------------------------------


def check_published(job: Job) -> None:
    """Celery has heard of one success, and of nothing else but pauses."""
    job.site.lab.wait_published(job.id)
    job.site.lab.ledger.wait("task", where=job.id)
    states: list[str] = eventually(
        lambda: "SUCCESS" in (seen := job.site.lab.states.of(job.id)) and seen, "SUCCESS is told"
    )
    assert states.count("SUCCESS") == 1
    assert set(states) <= {"PAUSED", "SUCCESS"}


def check_stored(job: Job, expected: str) -> None:
    """The transcript holds each reply and each observation once, and the answer at its end."""
    messages = job.site.lab.client.messages(job.id)
    roles = ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [message["role"] for message in messages] == roles
    assert messages[-1]["content"] == expected
    kinds = Counter(event.kind for event in job.site.lab.client.trace(job.id))
    assert (kinds["reply"], kinds["observation"], kinds["finished"]) == (2, 2, 1)


def check_model_calls(job: Job) -> None:
    """A model call is made again only if its reply had not been committed."""
    calls = Counter(entry["step"] for entry in job.site.lab.ledger.entries("model", tag=job.id))
    expected = Counter({1: 1, 2: 1, 3: 1})
    if job.point.repeats_model:
        expected[job.point.repeats_model] += 1
    assert calls == expected


def check_effects(job: Job) -> None:
    """An effect is repeated only between itself and its observation, and under the same key."""
    effects = job.site.lab.ledger.entries(job.tool, job=job.id)
    repeated = job.point.repeats_effect and job.tool != "pay"
    assert len(effects) == (2 if repeated else 1)
    assert {effect["key"] for effect in effects} == {f"{job.id}:call_10"}
