"""What a process still holds of jobs that it has handed over: their messages, as it read them.

A job goes back to the queue after so many steps, and often comes back to the same process. Reading
and checking its list anew at each slice would cost the more the longer the job has run.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from worker.messages import Transcript
from worker.store.base import Mark

MOST_BYTES = 32 * 1024 * 1024
"""Of all lists together, as JSON; in memory they take two or three times as much."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A list of messages.

    Attributes:
        mark: the moment of the job's life at which it was like that.
        size: bytes of its JSON, about.
    """

    mark: Mark
    transcript: Transcript
    size: int


class Shelf:
    """The lists of one process, for several threads; the oldest go first.

    Args:
        most_bytes: of all together; a longer list is not kept.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._bytes = 0

    def put(self, job_id: str, kept: Kept) -> None:
        """Keep a list that nobody will change."""
        with self._lock:
            self._drop(job_id)
            self._kept[job_id] = kept
            self._bytes += kept.size
            while self._bytes > self._most_bytes:
                self._drop(next(iter(self._kept)))

    def take(self, job_id: str) -> Kept | None:
        """The list, which from now on is the caller's; ``None`` if there is none."""
        with self._lock:
            return self._drop(job_id)

    def _drop(self, job_id: str) -> Kept | None:
        kept = self._kept.pop(job_id, None)
        if kept is not None:
            self._bytes -= kept.size
        return kept
