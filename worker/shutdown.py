"""Leaving: at the next commits when asked once, at once when asked twice or out of time.

The first SIGTERM (or Ctrl-C) raises the stop flag: every running job is handed over at its next
commit. A second signal, SIGQUIT, or the end of the grace time, ends the process without waiting
for the calls in flight; their jobs are freed and hinted first, so that other workers go on with
them.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from celery.platforms import signals
from celery.worker import state

from api_client.errors import StoreUnavailable
from api_client.hints import try_hint
from worker.service import Service

log = logging.getLogger(__name__)

FREEING_S = 3.0


class Leaving:
    """How one worker process and its pool children end.

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
        self._begun = False
        self._over = False
        self._hurry = threading.Event()

    def ask(self, *_: Any) -> None:
        """Called for each signal, in a signal handler."""
        if self._begun:
            self._hurry.set()
        self.begin()

    def hurry(self, *_: Any) -> None:
        """Leave without waiting for anything; may be a signal handler."""
        self._hurry.set()
        self.begin()

    def begin(self) -> None:
        """Stop at the next commits, and leave at the end of the grace time. May be repeated.

        A worker that runs in a thread of another program does not end that program.
        """
        if self._begun:
            return
        self._begun = True
        self._service.stop.set()
        if threading.current_thread() is not threading.main_thread():
            return
        # Celery's own handlers would kill calls in flight and then wait for them all the same.
        signals.update(SIGINT=self.ask, SIGQUIT=self.hurry)
        threading.Thread(target=self._wait, name="stepkeeper-leaving", daemon=True).start()

    def over(self) -> None:
        """The worker has ended in time; what its program does next is no longer our business."""
        self._over = True
        self._hurry.set()

    def _wait(self) -> None:
        asked_again = self._hurry.wait(self._grace_s)
        if self._over:
            return
        why = "told to hurry" if asked_again else f"{self._grace_s:g} s have passed"
        log.warning("leaving without waiting for %d calls: %s", self._in_flight(), why)
        self.leave()

    def _in_flight(self) -> int:
        """Messages that the pool works on, and jobs that run in this process for none."""
        return max(len(state.active_requests), len(self._service.leases.jobs))

    def leave(self, code: int = 0) -> None:
        """End the process and its children, freeing their jobs. Does not return."""
        self._service.stop.set()
        self._kill_children()
        freeing = threading.Thread(target=self._free, daemon=True)
        freeing.start()
        freeing.join(FREEING_S)
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
