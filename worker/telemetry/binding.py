"""Which job, agent and step the running code belongs to: what every log line says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from worker.redact import Redactor

_PATTERNS_ONLY = Redactor()


@dataclass(slots=True)
class Bound:
    """A slice that is running. Shared by all its threads; ``step`` moves on.

    Attributes:
        step: of the model reply that is being made or acted upon, from 1; 0 before the first.
        context: the job's hidden context, whose secrets stay out of log lines.
    """

    job: str
    agent: str
    epoch: int
    step: int = 0
    context: object | None = None
    _redactor: Redactor | None = None

    @property
    def redactor(self) -> Redactor:
        """Hides the secrets of the hidden context; looked for when the first line is written."""
        if self._redactor is None:
            self._redactor = _PATTERNS_ONLY.knowing(self.context)
        return self._redactor

    @property
    def fields(self) -> Mapping[str, str | int]:
        """By the names under which they stand in a log line."""
        fields: dict[str, str | int] = {"job": self.job, "agent": self.agent}
        if self.step:
            fields["step"] = self.step
        return fields


_bound: ContextVar[Bound | None] = ContextVar("stepkeeper_bound", default=None)


def bound() -> Bound | None:
    """What is running here; ``None`` outside of a job."""
    return _bound.get()


@contextmanager
def binding(slice_: Bound) -> Iterator[Bound]:
    """Bind the block, and what it starts in copies of its context, to a slice."""
    token = _bound.set(slice_)
    try:
        yield slice_
    finally:
        _bound.reset(token)
