"""What the demo shows: three jobs, a killed worker, a person's answer, and the proof of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from api_client.contract import Event, JobView
from worker.demo.failure import DemoFailed
from worker.demo.screen import Screen
from worker.demo.stage import Stage
from worker.examples.scripts import CALCULATOR_TASK, COMPENSATION_TASK, DOCS_TASK
from worker.rendering import follow, plain, rests

SCRIPTED_LIMIT_S = 40.0
REAL_LIMIT_S = 300.0
SAVED_AT_STEP = 3
"""In the script of the calculator: the step whose tool writes something."""
MAX_ANSWERS = 5


@dataclass(frozen=True, slots=True)
class Answered:
    """A job that has its answer.

    Attributes:
        how: what happened to it on its way.
    """

    agent: str
    job_id: str
    answer: Any
    how: str = ""


def play(stage: Stage, screen: Screen) -> list[Answered]:
    """Run everything on a stage that is set up.

    Raises:
        DemoFailed: something did not happen as it should.
    """
    screen.stage("jobs are accepted, before there is any worker")
    docs, shop = (
        stage.client.submit(agent, task, check_agent=False)
        for agent, task in (("docs", DOCS_TASK), ("shop", COMPENSATION_TASK))
    )
    answered = [
        _plain(stage, screen, docs),
        _killed(stage, screen, shop),
        _asked(stage, screen, shop),
    ]
    screen.stage("looking whether anything ran twice")
    if not stage.real:
        check_nothing_ran_twice(stage)
    return answered


# --- the three parts -----------------------------------------------------------------------


def _plain(stage: Stage, screen: Screen, job_id: str) -> Answered:
    """A job that simply runs to its end."""
    screen.stage("a worker starts; the docs agent looks something up")
    stage.start_worker()
    watch = Watch(stage, screen, job_id, "docs: four steps over a folder of Markdown")
    return Answered("docs", job_id, watch.to_answer())


def _killed(stage: Stage, screen: Screen, other: str) -> Answered:
    """A job whose worker is killed in the middle; ``other`` is not to be hit by that."""
    screen.stage("the calculator works")
    _let_rest(stage, other)
    job_id = stage.client.submit("calculator", CALCULATOR_TASK, check_agent=False)
    watch = Watch(stage, screen, job_id, "calculator: its worker is killed in the middle")
    step = _reach_the_middle(stage, watch)
    assert stage.worker is not None
    first = stage.worker.pid
    stage.worker.kill()
    stage.model.open()
    screen.note(f"SIGKILL to worker process {first} in step {step}; another one is started")
    screen.stage("another worker takes the job over")
    second = stage.start_worker().pid
    answer = watch.to_answer()
    how = f"resumed after SIGKILL: process {first} died in step {step}, process {second} went on"
    return Answered("calculator", job_id, answer, f"{how}; {_proof(stage, watch)}")


def _reach_the_middle(stage: Stage, watch: Watch) -> int:
    """Wait until a tool has done its work and the model is asked again; which step that is."""
    if stage.real:
        seen = watch.to_event(lambda event: event.kind == "observation")
        return 1 + int(str(seen.data["s"]))
    watch.to_event(lambda e: e.kind == "observation" and e.data["s"] == SAVED_AT_STEP)
    if not stage.model.wait_held(SCRIPTED_LIMIT_S):
        raise DemoFailed("the worker never asked the model for the reply after the saving")
    return SAVED_AT_STEP + 1


def _let_rest(stage: Stage, job_id: str) -> None:
    """Wait until a job has ended or paused, so that the kill meets one job only."""
    for _ in follow(stage.store, job_id, until=rests, timeout_s=_limit(stage)):
        _check_worker(stage)


def _proof(stage: Stage, watch: Watch) -> str:
    """What the trace, the model's server and the tool's own file say of the killed job."""
    events = stage.store.events(watch.job_id)
    if not any(e.kind == "claimed" and e.data.get("was") == "running" for e in events):
        raise DemoFailed("the trace shows no take-over: the kill came too late")
    steps = [e.data["s"] for e in events if e.kind in ("reply", "finished") and "s" in e.data]
    if steps != list(range(1, len(steps) + 1)):
        raise DemoFailed(f"these replies were stored: {steps}; each should be there once")
    if stage.real:
        return f"{len(steps)} replies, each stored once"
    calls = sum(stage.model.asked(CALCULATOR_TASK))
    runs = " + ".join(map(str, stage.papers.asked()))
    return f"{len(steps)} replies from {calls} model calls, runs of save_paper: {runs}"


def _asked(stage: Stage, screen: Screen, job_id: str) -> Answered:
    """A job that waits for a person."""
    screen.stage("the shop agent asks for a person")
    watch = Watch(stage, screen, job_id, "shop: a person decides about the compensation")
    view = watch.to(rests)
    names: list[str] = []
    while view.pause is not None and len(names) < MAX_ANSWERS:
        decision = screen.ask(view.pause)
        stage.client.signal(job_id, decision, pause_id=view.pause.id)
        names.append(decision.by)
        view = watch.to(_rests_elsewhere(view.pause.id))
    if not names:
        raise DemoFailed("the model answered the shop's customer without asking a person")
    return Answered("shop", job_id, watch.to_answer(), f"after a human signal by {names[-1]}")


def _rests_elsewhere(pause_id: str) -> Callable[[JobView], bool]:
    """Whether a job has come to its end, or to another pause."""
    return lambda view: rests(view) and (view.pause is None or view.pause.id != pause_id)


# --- following and checking ----------------------------------------------------------------


class Watch:
    """One job, shown as it goes on."""

    def __init__(self, stage: Stage, screen: Screen, job_id: str, title: str) -> None:
        self.job_id = job_id
        self._stage = stage
        self._screen = screen
        self._after = "0"
        screen.begin(stage.store, job_id, title)

    def to(self, until: Callable[[JobView], bool]) -> JobView:
        """Follow until ``until`` holds; where the job stands then."""
        for _ in self._events(until):
            pass
        return self._stage.store.read(self.job_id)

    def to_answer(self) -> Any:
        """Follow to the end.

        Raises:
            DemoFailed: that is no answer; says what it is.
        """
        view = self.to(rests)
        self._screen.end()
        if view.pause is not None:
            raise DemoFailed(f"the job of agent {view.spec.agent} paused: {view.pause.question}")
        if view.outcome is None or not view.outcome.ok:
            reason = view.outcome.text if view.outcome else ""
            raise DemoFailed(f"the job of agent {view.spec.agent} {view.status}: {reason}")
        return view.outcome.value

    def to_event(self, wanted: Callable[[Event], bool]) -> Event:
        """Follow to the first record that is wanted."""
        for event in self._events(rests):
            if wanted(event):
                return event
        raise DemoFailed(f"job {self.job_id} came to rest before it could be killed")

    def _events(self, until: Callable[[JobView], bool]) -> Iterator[Event]:
        def over(view: JobView) -> bool:
            _check_worker(self._stage)
            return until(view)

        store, limit = self._stage.store, _limit(self._stage)
        for event in follow(store, self.job_id, self._after, until=over, timeout_s=limit):
            self._after = event.id
            self._screen.event(event)
            yield event
        view = store.read(self.job_id)
        if not until(view):
            words = self._stage.worker.last_words() if self._stage.worker else "there is no worker"
            raise DemoFailed(f"job {self.job_id} is {view.status} after {limit:g} s: {words}")


def _limit(stage: Stage) -> float:
    return REAL_LIMIT_S if stage.real else SCRIPTED_LIMIT_S


def _check_worker(stage: Stage) -> None:
    if stage.worker is not None:
        stage.worker.check()


def check_nothing_ran_twice(stage: Stage) -> None:
    """Compare what the model's server and the tools' files counted with what must be.

    Raises:
        DemoFailed: they differ.
    """
    counted = {
        "docs": stage.model.asked(DOCS_TASK),
        "calculator": stage.model.asked(CALCULATOR_TASK),
        "shop": stage.model.asked(COMPENSATION_TASK),
        "papers": stage.papers.asked(),
    }
    # The one model call that was in flight at the kill is made again; nothing else is.
    wanted = {"docs": [1] * 4, "calculator": [1, 1, 1, 2], "shop": [1] * 3, "papers": [1]}
    if counted != wanted:
        raise DemoFailed(f"calls were counted as {plain(counted)}, they should be {plain(wanted)}")
    if stage.key_in_redis():
        raise DemoFailed("the hidden key of the library stands in Redis")
