"""Leaving: at the next commits when asked once, at once when asked twice or out of time.

The first SIGTERM (or Ctrl-C) raises the stop flag: every running job is handed over at its next
commit. A second signal, or the end of the grace time, ends the process without waiting for the
calls in flight; their jobs are freed and hinted first, so that other workers go on with them.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from api_client.errors import StoreUnavailable
from api_client.hints import try_hint
from worker.service import Service

log = logging.getLogger(__name__)

FREEING_S = 3.0


class Leaving:
    """How one worker process and its pool children end.

    Args:
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
        self._asked = 0
        self._hurry = threading.Event()

    def ask(self) -> None:
        """Called for each signal, in a signal handler."""
        self._asked += 1
        self._service.stop.set()
        if self._asked == 1:
            threading.Thread(target=self._wait, name="stepkeeper-leaving", daemon=True).start()
        else:
            self._hurry.set()

    def _wait(self) -> None:
        asked_again = self._hurry.wait(self._grace_s)
        why = "a second signal came" if asked_again else f"{self._grace_s:g} s have passed"
        log.warning("leaving without waiting for %d calls: %s", len(self.held), why)
        self.leave()

    @property
    def held(self) -> list[str]:
        """Jobs that run in this process now; those of pool children are not among them."""
        return self._service.leases.jobs

    def leave(self, code: int = 0) -> None:
        """End the process and its children, freeing their jobs. Does not return."""
        for pid in self._children():
            _kill(pid)
        freeing = threading.Thread(target=self._free, daemon=True)
        freeing.start()
        freeing.join(FREEING_S)
        self._end(code)

    def _free(self) -> None:
        """End the leases of this worker and tell the others."""
        try:
            for spec in self._service.store.abandon(self._service.owner_prefix):
                try_hint(self._service.app, spec)
        except StoreUnavailable as error:
            log.warning("the leases run out by themselves: %s", error)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        log.debug("process %d is gone already", pid)


def pool_children(worker: Any) -> list[int]:
    """The process ids of a prefork pool's children; none for pools of threads."""
    pool = getattr(getattr(worker, "pool", None), "_pool", None)
    processes = getattr(pool, "_pool", None)
    if not isinstance(processes, list):
        return []
    return [process.pid for process in processes if getattr(process, "pid", None)]
