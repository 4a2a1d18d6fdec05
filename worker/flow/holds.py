"""Keeping the places of the calls that this process makes, from a thread of its own.

A call may take minutes. Its place in flight lasts for seconds and is renewed, so that the places
of a process that has died are free again soon.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import defaultdict

from worker.flow.base import Ledger

log = logging.getLogger(__name__)

RENEWALS_PER_HOLD = 3


class Holds:
    """The calls that this process makes now. The thread starts with the first, also after a fork.

    Args:
        hold_s: seconds after which a call that is not renewed counts as over.
    """

    def __init__(self, ledger: Ledger, hold_s: float) -> None:
        self._ledger = ledger
        self._hold_s = hold_s
        self._lock = threading.Lock()
        self._calls: dict[str, str] = {}
        self._pid = 0

    def add(self, call: str, key: str) -> None:
        """A call begins."""
        with self._lock:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                self._calls = {}
                threading.Thread(target=self._beat, name="stepkeeper-holds", daemon=True).start()
            self._calls[call] = key

    def drop(self, call: str) -> None:
        """A call is over."""
        with self._lock:
            self._calls.pop(call, None)

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(self._hold_s / RENEWALS_PER_HOLD):
            try:
                self.renew()
            except Exception as error:  # noqa: BLE001 - without this thread places would be lost
                log.warning("places of model calls could not be renewed: %s", error)

    def renew(self) -> None:
        """Renew every place that is held now, in one call a key.

        Raises:
            StoreUnavailable
        """
        by_key: dict[str, list[str]] = defaultdict(list)
        with self._lock:
            for call, key in self._calls.items():
                by_key[key].append(call)
        for key, calls in by_key.items():
            self._ledger.renew(key, calls)
