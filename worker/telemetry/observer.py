"""The one seam through which logs, metrics and traces learn what happens.

The slice, the performer, the leases and the keeper tell an ``Observer`` of moments, as plain
values. Whoever wants to know more writes an observer of their own; nothing of it can harm a job.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from api_client.contract import JobSpec, JobStatus, Outcome, Pause, Signal

if TYPE_CHECKING:
    from worker.effects import CallTool
    from worker.ends import SliceEnd
    from worker.errors import PauseRequested
    from worker.models.base import ModelError, ModelReply, ModelRequest
    from worker.tools import Observation

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """A slice of a job: which job, whose lease, under which fencing token."""

    spec: JobSpec
    worker: str
    epoch: int


@dataclass(slots=True)
class ModelCall:
    """A model is asked.

    Attributes:
        step: the reply will be this step, from 1; a summary is made for this step.
        model: its name, as the agent's author gave it.
        agent_version: of the code that runs.
    """

    place: Place
    step: int
    model: str
    request: ModelRequest
    agent_version: str = ""


@dataclass(slots=True)
class ToolCall:
    """A tool is run."""

    place: Place
    step: int
    call: CallTool


Call = ModelCall | ToolCall


@dataclass(frozen=True, slots=True)
class JobClaimed:
    """A slice begins.

    Attributes:
        tries: starts at this very step without progress, this one included.
        was: the status before; ``running``: taken over from a worker that is gone.
        waited_ms: since the job could have been claimed, on the store's clock; ``None`` if unknown.
        pause, signal: the pause that a person has answered, if that is why it goes on.
    """

    place: Place
    tries: int
    was: JobStatus | None = None
    waited_ms: int | None = None
    pause: Pause | None = None
    signal: Signal | None = None


@dataclass(frozen=True, slots=True)
class JobResumed:
    """A job that a person has answered goes on, its state has been read.

    Attributes:
        step, tokens: model replies, and input and output tokens, so far.
    """

    place: Place
    step: int
    tokens: int
    pause: Pause
    signal: Signal


@dataclass(slots=True)
class ModelCalled:
    """A model has answered, or failed. ``ms``: how long it took."""

    call: ModelCall
    result: ModelReply | ModelError
    ms: int


@dataclass(slots=True)
class ToolCalled:
    """A tool has ended. ``ms``: how long it took."""

    call: ToolCall
    result: Observation | PauseRequested
    ms: int


@dataclass(slots=True)
class Spent:
    """Tokens, and money in millionths, that one commit added to the job's account."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_micros: int = 0

    def __bool__(self) -> bool:
        return bool(self.prompt_tokens or self.completion_tokens or self.cost_micros)


NOTHING = Spent()


@dataclass(slots=True)
class Committed:
    """The store has accepted a commit.

    Attributes:
        kind: of its trace record.
        model: that was asked last; empty if none was in this slice.
        ms: how long the store took.
        replied: it holds a new model reply.
        tokens: input and output, of the whole job so far.
    """

    place: Place
    step: int
    kind: str
    spent: Spent
    model: str
    ms: int
    replied: bool = False
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class SliceEnded:
    """The lease is given back, or lost.

    Attributes:
        error: the class of the last model error, if any.
        tokens: input and output, of the whole job so far.
    """

    place: Place
    step: int
    end: SliceEnd
    error: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The outcome of a job is being published; told again if that has to be done again."""

    spec: JobSpec
    status: JobStatus
    outcome: Outcome
    again: bool = False


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """A renewal found that another worker has the job."""

    job_id: str


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A job was freed that this worker's previous start held when it died."""

    spec: JobSpec


@dataclass(frozen=True, slots=True)
class Swept:
    """A sweep is over.

    Attributes:
        hints: jobs that it hinted.
        ms: how long it took.
        late_ms: how much later than planned it began.
    """

    hints: int
    ms: int
    late_ms: int


@dataclass(frozen=True, slots=True)
class LimitWaited:
    """A model call had to wait for a limit that all workers share.

    Attributes:
        key: of the model.
        ms: for how long; ``here``: on its thread, else the job was sent away for so long.
    """

    key: str
    ms: int
    here: bool


@dataclass(frozen=True, slots=True)
class LimitRefused:
    """A model call was refused.

    Attributes:
        why: ``too_large``: it takes more than the limit of a whole minute; ``provider``: by the
            provider, who wants no other call for a while.
    """

    key: str
    why: str


@dataclass(slots=True)
class StoreCalled:
    """One round trip to the store. ``failed``: it brought an error."""

    name: str
    ms: float
    failed: bool = False


Moment = (
    JobClaimed
    | JobResumed
    | ModelCalled
    | ToolCalled
    | Committed
    | SliceEnded
    | JobEnded
    | LeaseLost
    | TakenOver
    | Swept
    | StoreCalled
    | LimitWaited
    | LimitRefused
)


class Observer:
    """Told of what happens. This one does nothing of it; subclasses pick what they want.

    Attributes:
        heeds: the moments that it wants to be told of; ``None``: all. There are several a step.
    """

    heeds: frozenset[type] | None = None

    def note(self, moment: Moment) -> None:
        """Something has happened. Called in the thread where it did; must not block."""

    def calling(self, call: Call) -> AbstractContextManager[None]:  # noqa: ARG002
        """Around a call of a model or a tool, in the context in which it runs."""
        return _AROUND_NOTHING

    def headers(self, spec: JobSpec) -> dict[str, str]:  # noqa: ARG002
        """Message headers for a sub-job of this job."""
        return {}

    def is_heeding(self, kind: type) -> bool:
        """Whether it wants to be told of moments of this kind."""
        return self.heeds is None or kind in self.heeds


_AROUND_NOTHING = nullcontext()


class _Nobody(Observer):
    """Is told of everything and wants nothing."""

    heeds = frozenset()


NOBODY: Observer = _Nobody()


class Several(Observer):
    """Tells several observers; the error of one is logged, and keeps nobody from anything."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = tuple(observers)
        self._around = [one for one in observers if _has_its_own_calling(one)]
        self._heeding: dict[type, list[Observer]] = {}

    def is_heeding(self, kind: type) -> bool:
        """See ``Observer.is_heeding``."""
        return bool(self._who_heeds(kind))

    def _who_heeds(self, kind: type) -> list[Observer]:
        heeding = self._heeding.get(kind)
        if heeding is None:
            heeding = [observer for observer in self.observers if observer.is_heeding(kind)]
            self._heeding[kind] = heeding
        return heeding

    def note(self, moment: Moment) -> None:
        """See ``Observer.note``."""
        kind = type(moment)
        for observer in self._who_heeds(kind):
            try:
                observer.note(moment)
            except Exception:
                log.exception("%s failed at %s", _name(observer), kind.__name__)

    def calling(self, call: Call) -> AbstractContextManager[None]:
        """See ``Observer.calling``."""
        return self._calling(call) if self._around else _AROUND_NOTHING

    @contextmanager
    def _calling(self, call: Call) -> Iterator[None]:
        with ExitStack() as stack:
            for observer in self._around:
                try:
                    stack.enter_context(observer.calling(call))
                except Exception:
                    log.exception("%s failed at a call", _name(observer))
            yield

    def headers(self, spec: JobSpec) -> dict[str, str]:
        """See ``Observer.headers``."""
        merged: dict[str, str] = {}
        for observer in self.observers:
            try:
                merged.update(observer.headers(spec))
            except Exception:
                log.exception("%s failed at headers", _name(observer))
        return merged


def _name(observer: Observer) -> str:
    return type(observer).__name__


def _has_its_own_calling(observer: Observer) -> bool:
    return type(observer).calling is not Observer.calling
