"""Trying dangerous jobs one at a time (rule 15).

A process that dies takes all its jobs with it, and nobody can tell which of them it was. So a job
that has begun several times without progress is tried again only while no other such job runs in
the same process: what happens to it then is no longer its neighbours' doing, and a job that only
stood beside a poison one gets the chance to prove it.
"""

from __future__ import annotations

import threading


class Solitude:
    """The one place in a process for a job under suspicion; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guest: str | None = None

    def enter(self, job_id: str) -> bool:
        """Take the place for this job; ``False`` if another job has it."""
        with self._lock:
            if self._guest is not None:
                return False
            self._guest = job_id
            return True

    def leave(self, job_id: str) -> None:
        """Give the place back, if this job has it; only the job's own thread gives it back."""
        if self._guest != job_id:
            return
        with self._lock:
            if self._guest == job_id:
                self._guest = None
