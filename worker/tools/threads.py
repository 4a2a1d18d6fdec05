"""Runs functions with a time limit, in helper threads that are used again and again.

Python cannot end a thread. A call that does not come back in time is left behind: its thread is
counted until the function returns, and while too many are left behind no new call is begun.
Coroutines run on one event loop per process, where a timeout cancels them.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

MOST_LEFT_BEHIND = 32
_MOST_IDLE = 32
CANCEL_SECONDS = 1.0


class TimedOut(Exception):
    """The call did not come back in its time."""


class TooManyLeftBehind(Exception):
    """So many timed-out calls are still running that no more are begun.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


@dataclass(slots=True)
class Outcome:
    """What came of a call. An error is kept here, never raised: whatever ``run`` itself raises
    happened to the waiting thread, for example a real Ctrl-C, and not to the tool."""

    value: Any = None
    error: BaseException | None = None


class Work:
    """One call on its way to a helper thread or the loop, and its outcome on its way back."""

    __slots__ = ("_call", "_done", "context", "left_behind", "outcome")

    def __init__(self, call: Callable[[], Any], context: Context) -> None:
        self._call = call
        self._done = threading.Lock()
        self._done.acquire()
        self.context = context
        # What is true until the call has ended: it may be cancelled before it begins.
        self.outcome = Outcome(error=asyncio.CancelledError())
        self.left_behind = False

    def run(self) -> None:
        """Do it, in its context."""
        try:
            self.outcome = Outcome(self.context.run(self._call))
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            self.outcome = Outcome(error=error)

    async def run_async(self) -> None:
        """Do it on an event loop."""
        try:
            self.outcome = Outcome(await self._call())
        except BaseException as error:  # noqa: BLE001 - as above
            self.outcome = Outcome(error=error)

    def finish(self) -> None:
        """Wake whoever waits."""
        self._done.release()

    def wait(self, seconds: float) -> bool:
        """Wait until the work is done; whether it is."""
        return self._done.acquire(timeout=seconds)


class Crew:
    """The helper threads of one process, and its event loop.

    Args:
        most_left_behind: how many timed-out calls may still be running when another is begun.
        cancel_seconds: how long a cancelled coroutine has for its end, and a loop to respond.
    """

    def __init__(
        self, most_left_behind: int = MOST_LEFT_BEHIND, cancel_seconds: float = CANCEL_SECONDS
    ) -> None:
        self.most_left_behind = most_left_behind
        self.cancel_seconds = cancel_seconds
        self._lock = threading.Lock()
        self._idle: list[_Helper] = []
        self._left_behind = 0
        self._loop: _LoopThread | None = None

    @property
    def left_behind(self) -> int:
        """Number of timed-out calls that are still running."""
        return self._left_behind

    def run(self, call: Callable[[], Any], context: Context, seconds: float) -> Outcome:
        """Call a function in ``context``, in another thread, and wait for its outcome.

        Args:
            seconds: how long to wait.

        Raises:
            TimedOut: it is still running; it is left behind.
            TooManyLeftBehind: it was not called.
        """
        self.refuse_if_full()
        work = Work(call, context)
        self.start(work)
        if not work.wait(seconds) and self._leave_behind(work):
            raise TimedOut
        return work.outcome

    def run_async(
        self, call: Callable[[], Awaitable[Any]], context: Context, seconds: float
    ) -> Outcome:
        """Call a coroutine function on the process's event loop; the same errors as ``run``.

        After a timeout it is cancelled, and left behind only if it does not end then.
        """
        self.refuse_if_full()
        work = Work(call, context)
        loop = self._running_loop()
        task = loop.start(work, self._finished)
        if not work.wait(seconds):
            loop.cancel(task)
            if not work.wait(self.cancel_seconds) and self._leave_behind(work):
                self._drop_if_stuck(loop)
                raise TimedOut
            if isinstance(work.outcome.error, asyncio.CancelledError):
                raise TimedOut
        return work.outcome

    def start(self, work: Work) -> None:
        """Let a helper thread do some work; whoever waits for it watches it."""
        self._helper().take(work)

    def count_left_behind(self) -> None:
        """A call in a seat has overstayed its time; ``came_back`` when it returns."""
        with self._lock:
            self._left_behind += 1

    def came_back(self) -> None:
        """A call that was left behind in a seat has returned."""
        with self._lock:
            self._left_behind -= 1

    def refuse_if_full(self) -> None:
        """Raises ``TooManyLeftBehind`` if no more calls may be begun."""
        if self._left_behind >= self.most_left_behind:
            raise TooManyLeftBehind(self._left_behind)

    def _helper(self) -> _Helper:
        try:
            return self._idle.pop()
        except IndexError:
            return _Helper(self)

    def _leave_behind(self, work: Work) -> bool:
        """Count the work as left behind, unless it has finished in this instant."""
        with self._lock:
            if work.wait(0):
                return False
            work.left_behind = True
            self._left_behind += 1
        return True

    def _finished(self, work: Work) -> None:
        with self._lock:
            work.finish()
            if work.left_behind:
                self._left_behind -= 1

    def put_back(self, helper: _Helper, work: Work) -> bool:
        """Take back a helper whose work is done; False tells it to end."""
        kept = len(self._idle) < _MOST_IDLE
        if kept:
            # Before the caller wakes up: its next call finds this helper.
            self._idle.append(helper)
        self._finished(work)
        return kept

    def _running_loop(self) -> _LoopThread:
        with self._lock:
            if self._loop is None:
                self._loop = _LoopThread()
            return self._loop

    def _drop_if_stuck(self, loop: _LoopThread) -> None:
        """Leave a loop that a blocking coroutine holds; the next call gets a new one."""
        if loop.responds(self.cancel_seconds):
            return
        with self._lock:
            if self._loop is loop:
                self._loop = None
        loop.retire()


class _Helper:
    """One thread that runs one piece of work after another."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._inbox: SimpleQueue[Work] = SimpleQueue()
        threading.Thread(target=self._serve, name="stepkeeper-tool", daemon=True).start()

    def take(self, work: Work) -> None:
        self._inbox.put(work)

    def _serve(self) -> None:
        kept = True
        while kept:
            work = self._inbox.get()
            work.run()
            kept = self._crew.put_back(self, work)
            del work  # An idle thread must not keep a job's values alive.


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, name="stepkeeper-loop", daemon=True).start()

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def start(self, work: Work, finished: Callable[[Work], None]) -> list[asyncio.Task[None]]:
        """Run the work; the list receives its task once the loop has begun it."""
        started: list[asyncio.Task[None]] = []

        def begin() -> None:
            task = self._loop.create_task(work.run_async(), context=work.context)
            task.add_done_callback(lambda _: finished(work))
            started.append(task)

        self._loop.call_soon_threadsafe(begin)
        return started

    def cancel(self, started: list[asyncio.Task[None]]) -> None:
        """Ask the work to end, also if it has not begun yet."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in started])

    def responds(self, seconds: float) -> bool:
        """Whether the loop comes round within this time."""
        came_round = threading.Event()
        self._loop.call_soon_threadsafe(came_round.set)
        return came_round.wait(seconds)

    def retire(self) -> None:
        """End the loop and its thread, once it comes round and its last work is done."""

        async def last() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others)
            self._loop.stop()

        tasks: list[asyncio.Task[None]] = []  # The loop itself holds tasks only weakly.
        self._loop.call_soon_threadsafe(lambda: tasks.append(self._loop.create_task(last())))


_crew = Crew()


def crew() -> Crew:
    """The helper threads of this process."""
    return _crew


def _fresh_after_fork() -> None:
    # Threads do not survive a fork; a child that went on with them would wait forever.
    global _crew
    _crew = Crew(_crew.most_left_behind, _crew.cancel_seconds)


os.register_at_fork(after_in_child=_fresh_after_fork)
