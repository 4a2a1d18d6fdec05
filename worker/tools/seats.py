"""A thread that calls tools itself, and is relieved when one of them overstays its time.

To hand each call to another thread and to wait for it takes two switches of threads a call. So a
slice that calls tools goes on in a helper thread as a whole: in a seat. Whoever waits for the slice
looks at the clock meanwhile, leaves a driver behind whose tool hangs, and goes on in its place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Generic, TypeVar

from worker.tools.threads import Crew, Outcome, Work

T = TypeVar("T")

_here = threading.local()


class LeftBehind(BaseException):
    """Somebody else drives: whoever runs here has nothing more to do."""


class Seat(Generic[T]):
    """Where a helper thread drives, for one who waits.

    Args:
        crew: whose helper it is.
        shortest: the shortest time limit of the tools that will be called here, in seconds.
    """

    def __init__(self, crew: Crew, shortest: float) -> None:
        self._crew = crew
        self._shortest = shortest
        self._lock = threading.Lock()
        self._due: float | None = None
        self._vacated = False
        self._work: Work | None = None

    # --- of the one who waits ------------------------------------------------------------------

    def drive(self, steps: Callable[[], T]) -> T | None:
        """Run ``steps`` in a helper thread, in a copy of this context; returns what it returns.

        ``None``: a tool has overstayed its time, and the helper is left behind with it.

        Raises:
            Whatever ``steps`` raises.
        """
        self._work = work = Work(lambda: self._sit(steps), copy_context())
        self._crew.start(work)
        try:
            if not self._wait(work):
                return None
        except BaseException:
            self._vacate()
            raise
        if work.outcome.error is not None:
            raise work.outcome.error
        result: T = work.outcome.value
        return result

    def _wait(self, work: Work) -> bool:
        """Wait for the driver; whether it came to its end."""
        look = self._shortest
        while not work.wait(look):
            due = self._due
            left = self._shortest if due is None else due - time.monotonic()
            if left <= 0 and due is not None and self._leave_behind(due):
                return False
            look = min(max(left, 0.0), self._shortest)
        return True

    def _leave_behind(self, due: float) -> bool:
        """Leave the driver with the call that is due, unless it has ended in this instant."""
        with self._lock:
            if self._due != due:
                return False
            self._due, self._vacated = None, True
        self._crew.count_left_behind()
        return True

    def _vacate(self) -> None:
        with self._lock:
            self._vacated = True
            in_tool, self._due = self._due is not None, None
        if in_tool:
            self._crew.count_left_behind()

    # --- of the driver -------------------------------------------------------------------------

    def _sit(self, steps: Callable[[], T]) -> T:
        _here.seat = self
        try:
            return steps()
        finally:
            _here.seat = None

    def check(self) -> None:
        """Raises ``LeftBehind`` if nobody waits any more."""
        if self._vacated:
            raise LeftBehind

    def call(self, call: Callable[[], object], context: Context, seconds: float) -> Outcome:
        """Call a tool's function here.

        Raises:
            TooManyLeftBehind: it was not called.
            LeftBehind: it came back too late.
        """
        self._crew.refuse_if_full()
        self.check()
        self._due = time.monotonic() + seconds
        _here.seat = None  # tools that this one calls have time limits of their own
        try:
            outcome = Outcome(context.run(call))
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            outcome = Outcome(error=error)
        _here.seat = self
        if not self._came_in_time():
            self._crew.came_back()
            raise LeftBehind
        return outcome

    def _came_in_time(self) -> bool:
        with self._lock:
            in_time, self._due = self._due is not None, None
        return in_time


def seat_here() -> Seat[object] | None:
    """The seat in which this thread drives."""
    found: Seat[object] | None = getattr(_here, "seat", None)
    return found


def run_here_or_by(
    crew: Crew, call: Callable[[], object], context: Context, seconds: float
) -> Outcome:
    """Call a function with a time limit: in this thread if it sits in a seat, else by a helper.

    Raises:
        TimedOut, TooManyLeftBehind: see ``Crew.run``.
        LeftBehind: see ``Seat.call``.
    """
    seat = seat_here()
    return crew.run(call, context, seconds) if seat is None else seat.call(call, context, seconds)
