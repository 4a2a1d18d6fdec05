"""Driving a slice: what its loop asks of the outside world is performed, one thing after another.

From the first call of a tool on a helper thread drives, and calls the tools itself; this thread
waits, and goes on in its place if one of them overstays (``worker.tools.seats``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from worker.effects import CallTool
from worker.ends import SliceEnd
from worker.performing import Outside, Performer
from worker.tools.base import DEFAULT_TIMEOUT
from worker.tools.seats import Seat
from worker.tools.threads import crew

Work = Generator[Outside, Any, SliceEnd]
"""A slice: yields what it asks for, is sent the answers, returns how it ends."""


class Drive:
    """One slice on its way, in threads."""

    def __init__(self, work: Work, performer: Performer) -> None:
        self._work = work
        self._performer = performer
        self._asked: Outside | None = None
        limits = [tool.timeout for tool in performer.agent.toolbox]
        self._shortest = min(limits, default=DEFAULT_TIMEOUT)

    def to_end(self) -> SliceEnd:
        """Drive; returns how the slice ended, raises what its commits raise."""
        end, self._asked = pull(self._work, None)
        while end is None:
            in_a_seat = isinstance(self._asked, CallTool)
            end = self._in_a_seat() if in_a_seat else self._step()
        return end

    def _in_a_seat(self) -> SliceEnd | None:
        """Let a helper go on; ``None`` if it was left behind, and this thread goes on."""
        seat: Seat[SliceEnd] = Seat(crew(), self._shortest)
        end = seat.drive(partial(self._go_on, seat.check))
        if end is None:
            assert isinstance(self._asked, CallTool)
            return self._answer(self._performer.overdue(self._asked))
        return end

    def _go_on(self, check: Callable[[], None]) -> SliceEnd:
        while True:
            end = self._step()
            if end is not None:
                return end
            check()

    def _step(self) -> SliceEnd | None:
        assert self._asked is not None
        return self._answer(self._performer.perform(self._asked))

    def _answer(self, answer: Any) -> SliceEnd | None:
        end, self._asked = pull(self._work, answer)
        return end


def pull(work: Work, answer: Any) -> tuple[SliceEnd, None] | tuple[None, Outside]:
    """Send an answer; returns how the slice ended, or what it asks for next."""
    try:
        return None, work.send(answer)
    except StopIteration as stop:
        return stop.value, None
