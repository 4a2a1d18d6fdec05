"""Leaving: at the next commits when asked once, at once when asked twice or out of time.

The first SIGTERM (or Ctrl-C) raises the stop flag: every running job is handed over at its next
commit. A second signal, SIGQUIT, or the end of the grace time, ends the process without waiting
for the calls in flight; their jobs are freed and hinted first, so that other workers go on with
them. Meanwhile the spans of calls that have ended are sent, for two seconds at most.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, auto
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from celery.platforms import EX_FAILURE, EX_OK, signals
from celery.signals import worker_shutting_down
from celery.worker import state

from api_client.errors import StoreUnavailable
from api_client.hints import try_hint
from worker.service import Service
from worker.telemetry.setup import LAST_SPANS_S

log = logging.getLogger(__name__)

FREEING_S = 3.0
STDOUT = 1


class _Wish(Enum):
    """What somebody wants of a worker that is to end."""

    ASK = auto()  # a signal: leave when it is convenient; the second time: now
    CLOSE = auto()  # the worker ends, for whatever reason
    QUIT = auto()  # leave now
    OVER = auto()  # it has ended in time; what its program does next is not our business


class Leaving:
    """How one worker process and its pool children end.

    Signal handlers interrupt each other at any instant, so they take no lock: they put a wish into
    a queue that allows that, and a thread follows the wishes.

    Args:
        grace_s: seconds that calls in flight get.
        children: process ids of the pool's children at the time of asking.
        end: ends this process; replaces it, if the worker is to restart itself.
    """

    def __init__(
        self,
        service: Service,
        grace_s: float,
        children: Callable[[], list[int]],
        end: Callable[[int], Any] = os._exit,
    ) -> None:
        self._service = service
        self._grace_s = grace_s
        self._children = children
        self._end = end
        self._wishes: SimpleQueue[_Wish] = SimpleQueue()

    def start(self) -> None:
        """Follow wishes from now on; not in a worker that runs in a thread of another program.

        Ctrl-C then means what SIGTERM means, as often as it comes, and SIGQUIT means now: Celery's
        own handlers would kill calls in flight, and then wait for them all the same.
        """
        if threading.current_thread() is threading.main_thread():
            self._take_signals()
            threading.Thread(target=self._follow, name="stepkeeper-leaving", daemon=True).start()

    def _take_signals(self) -> None:
        numbers = count(1)

        def ask(number: int, _: Any) -> None:
            self._service.stop.set()
            self._wishes.put(_Wish.ASK)
            if next(numbers) == 1:
                self._tell_celery(number)

        signals.update(SIGTERM=ask, SIGINT=ask, SIGQUIT=lambda *_: self._wishes.put(_Wish.QUIT))

    def _tell_celery(self, number: int) -> None:
        """What Celery's own handlers do at first; not to be done twice, because it takes locks."""
        code = EX_FAILURE if number == signal.SIGINT else EX_OK
        state.should_stop = code  # type: ignore[assignment] # declared by its first value, None
        with suppress(OSError):  # nobody reads what it prints
            os.write(STDOUT, b"\nworker: Warm shutdown (MainProcess)\n")
        worker_shutting_down.send(
            sender=self._service.node, sig=signal.Signals(number).name, how="Warm", exitcode=code
        )

    def close(self) -> None:
        """Called when the worker begins to end, asked or not."""
        self._service.stop.set()
        self._wishes.put(_Wish.CLOSE)

    def over(self) -> None:
        """Called when the worker has ended."""
        self._wishes.put(_Wish.OVER)

    def _follow(self) -> None:
        why = self._reason_to_leave()
        if why:
            log.warning("leaving without waiting for %d calls: %s", self._in_flight(), why)
            self.leave()

    def _reason_to_leave(self) -> str:
        """Wait until calls in flight are not to be waited for any longer, and say why not."""
        asked = 0
        deadline = math.inf
        while (left := deadline - time.monotonic()) > 0:
            try:
                wish = self._wishes.get(timeout=None if left == math.inf else left)
            except Empty:
                break
            asked += wish is _Wish.ASK
            if wish is _Wish.OVER:
                return ""
            if wish is _Wish.QUIT or asked > 1:
                return "told to hurry"
            deadline = min(deadline, time.monotonic() + self._grace_s)
        return f"{self._grace_s:g} s have passed"

    def _in_flight(self) -> int:
        """Messages that the pool works on, and jobs that run in this process for none."""
        return max(len(state.active_requests), len(self._service.leases.jobs))

    def leave(self, code: int = 0) -> None:
        """End the process and its children, freeing their jobs. Does not return."""
        self._service.stop.set()
        self._kill_children()
        _side_by_side({self._free: FREEING_S, self._service.telemetry.close: LAST_SPANS_S})
        self._kill_children()  # those that the pool has put in place of the dead
        self._end(code)

    def _kill_children(self) -> None:
        for pid in self._children():
            _kill(pid)

    def _free(self) -> None:
        """End the leases of this worker and tell the others."""
        try:
            for spec in self._service.store.abandon(self._service.owner_prefix):
                try_hint(self._service.app, spec)
        except StoreUnavailable as error:
            log.warning("the leases run out by themselves: %s", error)


def _side_by_side(work: Mapping[Callable[[], None], float]) -> None:
    """Do it all at once, and wait for each so many seconds at most."""
    begun = time.monotonic()
    threads = [(threading.Thread(target=do, daemon=True), limit_s) for do, limit_s in work.items()]
    for thread, _ in threads:
        thread.start()
    for thread, limit_s in threads:
        thread.join(max(0.0, begun + limit_s - time.monotonic()))


def _kill(pid: int) -> None:
    """Kill a child and take its exit status, so that it does not stay behind as a zombie."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        log.debug("process %d is gone already", pid)


def pool_children(worker: Any) -> list[int]:
    """The process ids of a prefork pool's children; none for pools of threads."""
    pool = getattr(getattr(worker, "pool", None), "_pool", None)
    processes = getattr(pool, "_pool", None)
    if not isinstance(processes, list):
        return []
    return [process.pid for process in processes if getattr(process, "pid", None)]
