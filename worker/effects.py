"""What the loop asks of the outside, and how a slice ends: closed unions, matched exhaustively.

The loop is a generator. It yields an ``Effect`` and is sent the effect's answer; it returns an
``End``. It never does anything itself, which is why it needs no clock, no Redis and no network.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from api_client.contract import Outcome, Pause
from worker.context import CallInfo
from worker.errors import PauseRequested
from worker.messages import Message
from worker.models.base import Model, ModelError, ModelReply, ModelRequest
from worker.state import Tokens
from worker.tools import Arguments, Observation, Tool


@dataclass(slots=True)
class CallModel:
    """Ask a model, the agent's own if none is named. Answered with ``ModelAnswer``.

    Attributes:
        live: number of the step as which the reply is shown while it comes; ``None``: it is not.
    """

    request: ModelRequest
    model: Model | None = None
    live: int | None = None


@dataclass(slots=True)
class ModelAnswer:
    """The model's reply or its error, and the milliseconds it took."""

    result: ModelReply | ModelError
    elapsed_ms: int = 0


@dataclass(slots=True)
class CallTool:
    """Run one tool. Answered with ``ToolAnswer``."""

    tool: Tool
    arguments: Arguments
    info: CallInfo


@dataclass(slots=True)
class ToolAnswer:
    """The observation, or the tool's wish to pause, and the milliseconds it took."""

    result: Observation | PauseRequested
    elapsed_ms: int = 0


@dataclass(slots=True)
class CallTools:
    """Run several ``safe`` tools side by side. Answered with a tuple of ``ToolAnswer``."""

    calls: tuple[CallTool, ...]


@dataclass(slots=True)
class SubJob:
    """A job that a call of another agent becomes.

    Attributes:
        caps: what it may spend, by budget name.
    """

    job_id: str
    agent: str
    input: str
    caps: dict[str, float]


@dataclass(slots=True)
class SubResult:
    """How a sub-job ended, and what it spent."""

    outcome: Outcome
    usage: Tokens
    active_ms: int


@dataclass(slots=True)
class StartJobs:
    """Start these jobs unless they exist. Answered with a ``SubResult`` or ``None`` for each."""

    jobs: tuple[SubJob, ...]


@dataclass(slots=True)
class Commit:
    """Make progress durable. Answered with ``None``; if it is refused, the loop is closed.

    Attributes:
        heard: number of the last message of a person that is shown to the model by it.
        reads_next: behind it most likely comes a ``safe`` tool, which may run while this commit
            is on its way; whatever else comes has to wait until it has arrived.
    """

    kind: str
    data: dict[str, Any]
    messages: list[Message]
    consumes_signal: bool
    heard: int | None = None
    reads_next: bool = False


@dataclass(slots=True)
class Finished:
    """The job has its answer, a JSON value."""

    messages: list[Message]
    consumes_signal: bool
    value: Any
    data: dict[str, Any]


@dataclass(slots=True)
class Failed:
    """The job ends without an answer. ``reason`` is a word for programs, ``text`` for people."""

    messages: list[Message]
    consumes_signal: bool
    reason: str
    text: str
    data: dict[str, Any]


@dataclass(slots=True)
class Paused:
    """The job waits for a person."""

    messages: list[Message]
    consumes_signal: bool
    pause: Pause


@dataclass(slots=True)
class Backoff:
    """The model needs time: seconds to wait outside the worker's slot, and why.

    Attributes:
        attempt: how many calls have failed in a row; 0: none was made, for a shared limit.
    """

    messages: list[Message]
    consumes_signal: bool
    seconds: float
    text: str
    attempt: int


@dataclass(slots=True)
class Awaiting:
    """The job waits for its sub-jobs, outside the worker's slot."""

    messages: list[Message]
    consumes_signal: bool
    jobs: tuple[str, ...]


Effect = CallModel | CallTool | CallTools | StartJobs | Commit
End = Finished | Failed | Paused | Backoff | Awaiting
Steps = Generator[Effect, Any, End]
Part = Generator[Effect, Any, End | None]
"""A part of the loop: returns an end, or ``None`` to go on."""
