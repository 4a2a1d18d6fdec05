"""Noticing a worker that does not take messages although it could, and restarting it.

Celery workers can lose their broker connection and never come back, or stay connected and stop
consuming. Whatever the cause, the symptom is one: the broker can be reached, messages wait, slots
are free, and none is taken.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from celery import Celery
from celery.worker import state

from worker.broker import waiting
from worker.forking import no_fork

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sight:
    """What the watchdog saw at one moment.

    Attributes:
        waiting: messages in the worker's queues; ``None`` if the broker cannot be reached.
        taken: messages that the worker has taken since its start.
        free: whether a slot is free.
    """

    waiting: int | None
    taken: int
    free: bool


@dataclass(slots=True)
class Patience:
    """Decides when a worker that takes nothing has stalled. Pure: time comes from outside."""

    limit_s: float
    _since: float | None = field(default=None, init=False)
    _taken: int = field(default=-1, init=False)

    def stalled(self, sight: Sight, now_s: float) -> bool:
        """Whether for ``limit_s`` seconds messages have waited, slots were free, none was taken."""
        idle = bool(sight.waiting) and sight.free and sight.taken == self._taken
        self._taken = sight.taken
        if not idle:
            self._since = None
            return False
        if self._since is None:
            self._since = now_s
        return now_s - self._since >= self.limit_s


def look(app: Celery, concurrency: int) -> Sight:
    """Look at the broker, over a fresh connection, and at this worker's counters."""
    taken = sum(state.total_count.values())
    free = len(state.active_requests) < concurrency
    return Sight(waiting(app), taken, free)


def watch(
    app: Celery,
    concurrency: int,
    limit_s: float,
    wait: Callable[[float], bool],
    restart: Callable[[], None],
) -> None:
    """Look every ``limit_s / 6`` seconds until ``wait`` says that the worker ends."""
    patience = Patience(limit_s)
    while not wait(limit_s / 6):
        with no_fork():
            sight = look(app, concurrency)
        if patience.stalled(sight, time.monotonic()):
            log.critical(
                "messages wait, slots are free, and none was taken for %g s: restarting", limit_s
            )
            restart()
            return


def replace_process(_code: int) -> None:
    """Start this program anew in the same process, with the same arguments."""
    arguments = [sys.executable, *sys.orig_argv[1:]]
    try:
        os.execv(sys.executable, arguments)  # noqa: S606 - our own command line
    except OSError:
        log.critical("cannot restart; whoever supervises this worker has to", exc_info=True)
        os._exit(1)
