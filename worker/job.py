"""A job while a worker holds it: what was read once at the claim, and what came since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from api_client.contract import JobSpec, Mail, Pause, Signal
from api_client.sizes import (
    DEFAULT_SIZES,
    Sizes,
    deeper_than,
    setting_name,
    size_of,
    too_large,
)
from worker.budget import Limits, capped
from worker.effects import Commit, Failed, Finished
from worker.messages import Message, Transcript, observation
from worker.state import RunState
from worker.tools import Tool


@dataclass(slots=True)
class Job:
    """Everything the loop knows of one job.

    Attributes:
        attempt: 1, or more if earlier attempts at this very step died.
        pause: the pause that a person has answered with ``signal``; both are there until a
            commit has consumed them.
        mail: messages of people that the model has not been shown.
        sizes: how large what it stores may be.
    """

    spec: JobSpec
    transcript: Transcript = field(default_factory=Transcript)
    state: RunState = field(default_factory=RunState)
    attempt: int = 1
    pause: Pause | None = None
    signal: Signal | None = None
    mail: Sequence[Mail] = ()
    sizes: Sizes = DEFAULT_SIZES
    retaken: frozenset[str] = field(init=False)
    _consuming: bool = field(init=False, default=False)
    _heard: int | None = field(init=False, default=None)
    _tokens: int = field(init=False, default=0)
    _counted: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.retaken = frozenset(call["id"] for call in self.transcript.pending)
        if not self.state.stored:  # by a program that did not count it
            self.state.stored = sum(map(size_of, self.transcript.stored))

    @property
    def id(self) -> str:
        """The job's id."""
        return self.spec.job_id

    def observe(self, call_id: str, text: str) -> int:
        """Answer one call in the transcript; returns the message's index."""
        self.attempt = 1  # calls run one after the other: those behind it have not been begun
        return self.transcript.append(observation(call_id, text))

    def limits(self, of_agent: Limits) -> Limits:
        """What this job may spend: its agent's limits, or less if it is a sub-job."""
        return capped(of_agent, self.spec.caps) if self.spec.caps else of_agent

    def count_call(self, tool: Tool) -> None:
        """Note one execution of a tool that has a limit; others are told by the trace."""
        if tool.max_calls is not None:
            self.state.calls[tool.name] = self.state.calls.get(tool.name, 0) + 1

    def attempt_of(self, call_id: str) -> int:
        """Which execution of a call this would be, from 1."""
        return self.attempt if call_id in self.retaken else 1

    def prompt_tokens(self, count: Callable[[Iterable[Message]], int]) -> int:
        """Estimated tokens of the whole list; counts each message once."""
        stored = self.transcript.stored
        self._tokens += count(stored[self._counted :])
        self._counted = len(stored)
        return self._tokens

    def consume_signal(self) -> None:
        """The next commit takes the signal off the record."""
        self.signal = None
        self.pause = None
        self._consuming = True

    def open_mail(self) -> list[str]:
        """The messages of people; the next commit takes them off the record."""
        texts = [mail.text for mail in self.mail]
        if self.mail:
            self._heard = self.mail[-1].number
        self.mail = ()
        return texts

    def commit(self, kind: str, *, reads_next: bool = False, **data: Any) -> Commit:
        """A commit of everything that is new."""
        heard, self._heard = self._heard, None
        return Commit(kind, data, *self.carry(), heard=heard, reads_next=reads_next)

    def finished(self, value: Any, **data: Any) -> Finished | Failed:
        """The job has its answer; ``data`` is the record of the reply that brought it.

        An answer that is too large or nested too deeply is none: the job has failed.
        """
        limit, deepest = self.sizes.max_answer_bytes, self.sizes.max_depth
        if (size := size_of(value)) > limit:
            advice = "let it be stored elsewhere, and answer with a reference"
            text = too_large("answer", size, limit, "max_answer_bytes", advice)
            return self.failed("answer_too_large", text, **data)
        if deeper_than(value, deepest):
            text = f"answer: nested more than {deepest} levels deep ({setting_name('max_depth')})"
            return self.failed("answer_too_large", text, **data)
        return Finished(*self.carry(), value=value, data=data)

    def failed(self, reason: str, text: str, **data: Any) -> Failed:
        """The job ends without an answer."""
        return Failed(*self.carry(), reason=reason, text=text, data=data)

    def carry(self) -> tuple[list[Message], bool]:
        """What the next commit carries: new messages, and whether it consumes the signal."""
        consuming, self._consuming = self._consuming, False
        messages = self.transcript.take_unsaved()
        self.state.stored += sum(map(size_of, messages))
        return messages, consuming
