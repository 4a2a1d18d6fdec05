"""Keeping the leases of the jobs that this process runs, from a thread of its own.

A tool or a model call may block for as long as it likes: its thread is not the one that renews.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from api_client.errors import StoreUnavailable
from worker.store.base import CheckpointStore
from worker.telemetry.observer import NOBODY, LeaseLost, Observer

log = logging.getLogger(__name__)

RENEWALS_PER_LEASE = 3


class Leases:
    """The leases held by this process.

    The thread starts with the first lease and again after a fork.

    Args:
        lease_ms: must be the one that claims ask for.
        observer: told of leases that are lost.
    """

    def __init__(self, store: CheckpointStore, lease_ms: int, observer: Observer = NOBODY) -> None:
        self._observer = observer
        self._store = store
        self._lease_ms = lease_ms
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self._crowded: set[str] = set()
        self._pid = 0

    @contextmanager
    def hold(self, job_id: str, epoch: int, crowded: bool = False) -> Iterator[None]:
        """Renew the lease of a claimed job while the block runs.

        Args:
            crowded: other tenants wait for its slot; later renewals tell anew.
        """
        with self._lock:
            self._start_thread()
            self._held[job_id] = epoch
            self._note_crowd(job_id, crowded)
        try:
            yield
        finally:
            with self._lock:
                if self._held.get(job_id) == epoch:
                    del self._held[job_id]
                    self._crowded.discard(job_id)

    def _note_crowd(self, job_id: str, crowded: bool) -> None:
        if crowded:
            self._crowded.add(job_id)
        else:
            self._crowded.discard(job_id)

    def crowded(self, job_id: str) -> bool:
        """Whether other tenants waited for the job's slot when its lease was last renewed."""
        return job_id in self._crowded

    @property
    def jobs(self) -> list[str]:
        """Ids of the jobs that run here now."""
        with self._lock:
            return list(self._held)

    def _holds(self, job_id: str, epoch: int) -> bool:
        """Whether the job still runs here: one that has just ended has no lease to lose."""
        with self._lock:
            return self._held.get(job_id) == epoch

    def _start_thread(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._held, self._crowded = {}, set()
            threading.Thread(target=self._beat, name="stepkeeper-leases", daemon=True).start()

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(self._lease_ms / 1000 / RENEWALS_PER_LEASE):
            try:
                self.renew()
            except Exception:  # without this thread every job here would lose its lease
                log.exception("renewing leases failed; the next beat tries again")

    def renew(self) -> None:
        """Renew everything that is held now, in one call a partition."""
        with self._lock:
            held = list(self._held.items())
        if not held:
            return
        try:
            answers = self._store.renew(held, self._lease_ms)
        except StoreUnavailable as error:
            log.warning("leases of %d jobs could not be renewed: %s", len(held), error)
            return
        for (job_id, epoch), answer in zip(held, answers, strict=True):
            with self._lock:
                self._note_crowd(job_id, answer == "crowded" and self._held.get(job_id) == epoch)
            if answer == "lost" and self._holds(job_id, epoch):
                log.warning("job %s: the lease is lost; its next commit will be refused", job_id)
                self._observer.note(LeaseLost(job_id))
