"""Trace records as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from api_client.contract import Event, JobStatus, JobView

LOOK_EVERY_S = 1.0


class TraceSource(Protocol):
    """The part of a ``JobStore`` that a trace is read from."""

    def read(self, job_id: str) -> JobView:
        """See ``JobStore.read``."""

    def messages(self, job_id: str, start: int = 0) -> list[dict[str, Any]]:
        """See ``JobStore.messages``."""

    def events(
        self, job_id: str, after: str = "0", count: int = 1000, block_s: float = 0.0
    ) -> Sequence[Event]:
        """See ``JobStore.events``."""


def ended(view: JobView) -> bool:
    """The job will never run again."""
    return view.status.ended


def rests(view: JobView) -> bool:
    """Nothing more happens by itself: the job has ended, or waits for a person."""
    return view.status.ended or view.status is JobStatus.PAUSED


def follow(
    store: TraceSource,
    job_id: str,
    after: str = "0",
    *,
    until: Callable[[JobView], bool] = ended,
    timeout_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Event]:
    """The records behind an offset, and each new one, until ``until`` holds and all are read.

    Args:
        timeout_s: seconds after which it ends as well; never, if not given.
        clock: seconds, for measuring that.

    Raises:
        JobNotFound, StoreUnavailable
    """
    deadline = None if timeout_s is None else clock() + timeout_s
    while True:
        over = until(store.read(job_id))
        left = LOOK_EVERY_S if deadline is None else min(LOOK_EVERY_S, deadline - clock())
        events = store.events(job_id, after, block_s=0.0 if over else max(0.0, left))
        yield from events
        after = events[-1].id if events else after
        if not events and (over or left <= 0):
            return


def written(store: TraceSource, job_id: str, after: str = "0") -> Iterator[Event]:
    """The records behind an offset that are there now.

    Raises:
        JobNotFound, StoreUnavailable
    """
    return follow(store, job_id, after, until=lambda _: True)
