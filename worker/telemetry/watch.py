"""Telling an observer of one slice: turns what the slice and its performer do into moments."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from worker.effects import CallTool, ModelAnswer, ToolAnswer
from worker.models.base import ModelError, ModelReply, ModelRequest
from worker.state import RunState, Tokens
from worker.telemetry.binding import Bound
from worker.telemetry.observer import (
    NOBODY,
    NOTHING,
    Call,
    Committed,
    JobClaimed,
    JobResumed,
    ModelCall,
    ModelCalled,
    Observer,
    Place,
    SliceEnded,
    Spent,
    ToolCall,
    ToolCalled,
)

if TYPE_CHECKING:
    from worker.ends import SliceEnd
    from worker.store.base import Claimed

_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}")


class SliceWatch:
    """One slice, as an observer is told of it. Used by all threads of the slice.

    Args:
        worker: owner of the lease.
        version: of the agent's code.
    """

    def __init__(self, observer: Observer, claim: Claimed, worker: str, version: str) -> None:
        self._observer = observer
        self._claim = claim
        self._version = version
        self._counted = Tokens()
        self._replied = 0
        self._model = ""
        self._error = ""
        self.place = Place(claim.spec, worker, claim.epoch)
        self.bound = Bound(claim.spec.job_id, claim.spec.agent, claim.epoch)

    @property
    def nobody(self) -> bool:
        """Whether no observer is there that would be told."""
        return self._observer is NOBODY

    def claimed(self) -> None:
        """The slice begins."""
        claim = self._claim
        self._observer.note(
            JobClaimed(
                self.place, claim.tries, claim.was, claim.waited_ms, claim.pause, claim.signal
            )
        )

    def loaded(self, state: RunState) -> None:
        """The job's state has been read: what was spent before is not told again."""
        self._counted = _copy(state.usage)
        self.bound.step = self._replied = state.steps
        pause, signal = self._claim.pause, self._claim.signal
        if pause is not None and signal is not None:
            tokens = state.usage.total
            self._observer.note(JobResumed(self.place, state.steps, tokens, pause, signal))

    def asks(self, model: str, request: ModelRequest) -> ModelCall:
        """A model is about to be asked."""
        self._model = model
        return ModelCall(self.place, self.bound.step + 1, model, request, self._version)

    def runs(self, effect: CallTool) -> ToolCall:
        """A tool is about to be run."""
        return ToolCall(self.place, effect.info.step, effect)

    def around(self, call: Call) -> AbstractContextManager[None]:
        """Around a call; what came of it is told within."""
        return self._observer.calling(call)

    def answered(self, call: ModelCall, answer: ModelAnswer) -> ModelAnswer:
        """A model has answered, or failed; hands the answer through."""
        result = answer.result
        self._error = "" if isinstance(result, ModelReply) else kind_of(result)
        if not (isinstance(result, ModelError) and result.fate == "wait"):  # no model was asked
            self._observer.note(ModelCalled(call, result, answer.elapsed_ms))
        return answer

    def ended_with(self, call: ToolCall, answer: ToolAnswer) -> ToolAnswer:
        """A tool has ended; hands the answer through."""
        self._observer.note(ToolCalled(call, answer.result, answer.elapsed_ms))
        return answer

    def sent(self, state: RunState) -> None:
        """A commit of this state is on its way: what runs meanwhile belongs to its step."""
        self.bound.step = state.steps

    def committed(self, kind: str, state: RunState, ms: int) -> None:
        """The store has accepted a commit of this state."""
        replied = state.steps > self._replied
        self.bound.step = self._replied = state.steps
        if self.nobody:
            return
        spent = NOTHING
        if state.usage != self._counted:
            spent = _difference(state.usage, self._counted)
            self._counted = _copy(state.usage)
        self._observer.note(
            Committed(
                *(self.place, state.steps, kind, spent, self._model, ms),
                replied=replied,
                tokens=state.usage.total,
            )
        )

    def headers(self) -> dict[str, str]:
        """Message headers for a sub-job of this one."""
        return self._observer.headers(self.place.spec)

    def ended(self, end: SliceEnd) -> None:
        """The slice is over."""
        step, tokens = self.bound.step, self._counted.total
        self._observer.note(SliceEnded(self.place, step, end, self._error, tokens))


def kind_of(error: ModelError) -> str:
    """A model error's class, of which there are few: an HTTP status or a word."""
    if error.status is not None:
        return str(error.status)
    return error.code if error.code and _WORD.fullmatch(error.code) else "no_answer"


def _copy(tokens: Tokens) -> Tokens:
    return Tokens(
        tokens.prompt_tokens,
        tokens.completion_tokens,
        tokens.cached_tokens,
        tokens.estimated,
        tokens.cost_micros,
    )


def _difference(now: Tokens, before: Tokens) -> Spent:
    return Spent(
        now.prompt_tokens - before.prompt_tokens,
        now.completion_tokens - before.completion_tokens,
        now.cached_tokens - before.cached_tokens,
        now.cost_micros - before.cost_micros,
    )
