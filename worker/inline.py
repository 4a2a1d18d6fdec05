"""Running an agent here and now, in this process: for tests, notebooks and first tries.

    run = run_inline(shop, "Where is order 1042?", model="It is on its way.")
    assert run.answer == "It is on its way."

The loop, the runner, the commits and the pauses are the real ones; only the store is in memory, so
neither Redis nor Celery is needed. A pause is answered by a function, in the place of a person.
"""

from __future__ import annotations

import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from api_client.client import parse_signal
from api_client.contract import Event, JobView, Outcome, Pause, Signal
from api_client.errors import JobFailed
from api_client.specs import make_spec
from worker.agent import Agent, by_name
from worker.discovery import with_delegates
from worker.ends import Awaited, Deferred, Ended, HandedOver, Left, Suspended
from worker.leases import Leases
from worker.models.base import Model
from worker.models.function import FunctionModel
from worker.models.scripted import ScriptedModel
from worker.runner import Runner
from worker.store.memory import MemoryStore, wall_clock_ms

Answers = Callable[[Pause], Signal | Mapping[str, Any] | None]
"""A person's part: the signal for a pause, or ``None`` to leave the job paused."""

ModelSource = Model | Callable[..., Any] | Sequence[Any] | str | None
"""A model, a function of the messages (and the tools), the lines of a script, or one answer."""

MAX_PAUSES = 100
_OWNER = "inline/here/0/"


@dataclass(frozen=True, slots=True)
class InlineRun:
    """What became of a job.

    Attributes:
        outcome: how it ended; ``None`` if it was left paused.
        messages: the transcript, in the OpenAI chat format.
        events: its trace, oldest first.
        view: the job as a client sees it: status, steps, usage, the open pause.
    """

    outcome: Outcome | None
    messages: list[dict[str, Any]]
    events: list[Event]
    view: JobView

    @property
    def answer(self) -> Any:
        """The final answer, a JSON value.

        Raises:
            JobFailed: there is none; says why, or which question is open.
        """
        if self.outcome is not None and self.outcome.ok:
            return self.outcome.value
        if self.outcome is not None:
            raise JobFailed(self.outcome.text, self.outcome.reason)
        question = self.pause.question if self.pause else ""
        raise JobFailed(f"the job is paused: {question}", "paused")

    @property
    def pause(self) -> Pause | None:
        """The pause that nobody has answered, if the job was left in one."""
        return self.view.pause

    @property
    def observations(self) -> list[str]:
        """What the model read of its calls, in the order in which they were answered."""
        return [m["content"] for m in self.messages if m["role"] == "tool"]


def run_inline(
    agent: Agent,
    input: Any,
    *,
    model: ModelSource = None,
    answers: Answers | None = None,
    metadata: Mapping[str, Any] | None = None,
    tenant: str = "",
    job_id: str | None = None,
) -> InlineRun:
    """Run one job of an agent to its end, or to a pause that ``answers`` does not answer.

    The waits between two tries of a failed model call are skipped, not slept.

    Args:
        input: the task, a text or another JSON value.
        model: in place of the agent's own: a model, a function of the messages (and the tools),
            the lines of a script, or one answer.
        answers: called with each pause; without it the first pause ends the run.
        metadata, tenant: what the agent's context may go by.
        job_id: a new one, if not given.

    Raises:
        InvalidInput: the input, or another argument, that no client could submit; or ``answers``
            gave something that the pause does not take.
        SignalRefused: ``answers`` gave something that the pause does not take.
        RuntimeError: the job paused more than 100 times.
    """
    worker = InlineWorker([agent], model=model, answers=answers)
    spec = make_spec(
        job_id=job_id or str(uuid.uuid4()),
        agent=agent.name,
        input=input,
        metadata=metadata,
        tenant=tenant,
    )
    worker.store.create(spec)
    worker.run(spec.job_id)
    return worker.result(spec.job_id)


def _as_model(source: Any) -> Model:
    if isinstance(source, Model):
        return source
    if callable(source):
        return FunctionModel(source)
    return ScriptedModel([source] if isinstance(source, str) else source)


def _nobody(_pause: Pause) -> None:
    return None


class InlineStore(MemoryStore):
    """A store in memory on which waiting takes no time: its clock can be put forward."""

    def __init__(self) -> None:
        self._skipped_ms = 0
        super().__init__(self.now)

    def now(self) -> int:
        """Milliseconds since the epoch, and what was skipped."""
        return wall_clock_ms() + self._skipped_ms

    def skip(self, seconds: float) -> None:
        """Put the clock forward."""
        self._skipped_ms += math.ceil(seconds * 1000)


class InlineWorker:
    """Runs jobs of a store here and now, as a worker would.

    Args:
        agents: whose jobs it runs.
        store: a new one, if not given.
        model: in place of the agents' own.
        answers: called with each pause; without it, or where it gives ``None``, a job stays paused.
    """

    def __init__(
        self,
        agents: Iterable[Agent],
        *,
        store: InlineStore | None = None,
        model: ModelSource = None,
        answers: Answers | None = None,
    ) -> None:
        if model is not None:
            given = _as_model(model)
            agents = [replace(agent, model=given) for agent in agents]
        self.agents = by_name(with_delegates(agents))
        self.store = store or InlineStore()
        self._answers = answers or _nobody
        self._pauses: Counter[str] = Counter()
        self._runner = Runner(
            store=self.store,
            agents=self.agents,
            owner=_OWNER,
            leases=_Unrenewed(self.store, 0),
            clock_ms=lambda: time.monotonic_ns() // 1_000_000,
            default_model=_from_environment,
        )

    def run(self, job_id: str) -> None:
        """Run a job to its end, or to a pause that nobody answers.

        Raises:
            SignalRefused, InvalidInput: ``answers`` gave something that the pause does not take.
            RuntimeError: the job paused more than 100 times, or cannot go on here.
        """
        while self._slice(job_id):
            pass

    def _slice(self, job_id: str) -> bool:
        """Run one slice and what would follow it in a worker; whether the job goes on."""
        match self._runner.run(job_id):
            case Ended():
                self.store.published(job_id)
                return False
            case Awaited(jobs=jobs):
                self._run_to_end(jobs)
                self.store.wake(job_id)
            case Suspended(pause=pause):
                return self._answer(job_id, pause)
            case Deferred(seconds=seconds):
                self.store.skip(seconds)
            case HandedOver() | Left(why="broke_off"):
                pass  # a worker would be hinted, and a job without progress runs out of tries
            case Left(why="ended" | "paused"):
                return False
            case Left(why=why, detail=detail):
                raise RuntimeError(f"job {job_id} could not go on: {why} {detail}".rstrip())
        return True

    def _run_to_end(self, jobs: Sequence[str]) -> None:
        """Run sub-jobs; one that stays paused is cancelled, as there is nobody to wait for it."""
        for job_id in jobs:
            self.run(job_id)
            if not self.store.read(job_id).status.ended:
                self.store.cancel(job_id, "inline", "its pause was not answered")

    def _answer(self, job_id: str, pause: Pause) -> bool:
        self._pauses[job_id] += 1
        decision = self._answers(pause)
        if decision is None:
            return False
        if self._pauses[job_id] > MAX_PAUSES:
            times = self._pauses[job_id]
            raise RuntimeError(f"job {job_id} paused {times} times; last: {pause.question}")
        self.store.signal(job_id, pause.id, parse_signal(decision), uuid.uuid4().hex)
        return True

    def result(self, job_id: str) -> InlineRun:
        """Everything that the store holds of the job."""
        view = self.store.read(job_id)
        events: list[Event] = []
        while found := self.store.events(job_id, events[-1].id if events else "0"):
            events += found
        return InlineRun(view.outcome, self.store.messages(job_id), events, view)


class _Unrenewed(Leases):
    """Leases without the thread that renews them: nobody else is there to take a job over."""

    @contextmanager
    def hold(self, job_id: str, epoch: int, crowded: bool = False) -> Iterator[None]:  # noqa: ARG002
        """Nothing to keep."""
        yield


def _from_environment() -> Model:
    """The model that a worker gives to agents without one."""
    from worker.models.openai import OpenAIModel

    return OpenAIModel()
