"""Which limits hold: those set at run time, and behind them those of the settings.

No call asks the store for them. A worker's main process looks every few seconds, and raises a
number that its forked children see; a process reads the limits anew when the number has changed.
"""

from __future__ import annotations

import logging
import mmap
import threading
import time
from collections.abc import Callable, Mapping

from api_client.errors import StoreUnavailable
from worker.flow.base import Limit

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
"""How long a new limit takes to reach all workers."""

_MOST = 255


class Tick:
    """A number that a worker's main process raises and its forked children see.

    One byte of shared anonymous memory, from 1 to 255 and round again: no lock that a killed
    child could leave taken.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)
        self._memory[0] = 1

    @property
    def value(self) -> int:
        """The number."""
        return self._memory[0]

    def raise_(self) -> None:
        """Raise it."""
        self._memory[0] = self.value % _MOST + 1


class LimitBook:
    """The limits as one process knows them.

    Args:
        own: of the settings.
        stored: reads those set at run time.
        tick: says that they have changed.
    """

    def __init__(
        self, own: Mapping[str, Limit], stored: Callable[[], Mapping[str, Limit]], tick: Tick
    ) -> None:
        self._own = own
        self._stored = stored
        self._tick = tick
        self._seen = 0
        self._not_before_s = 0.0
        self._limits: Mapping[str, Limit] = own
        self._lock = threading.Lock()

    @property
    def empty(self) -> bool:
        """Whether there is no limit at all."""
        return not self._now()

    def get(self, key: str) -> Limit | None:
        """The limit of a key, if it has one."""
        return self._now().get(key)

    def _now(self) -> Mapping[str, Limit]:
        """The limits; the store is asked only if there may be news."""
        if self._seen != self._tick.value:
            self._read()
        return self._limits

    def _read(self) -> None:
        with self._lock:
            tick = self._tick.value
            if self._seen == tick or time.monotonic() < self._not_before_s:
                return
            try:
                self._limits = {**self._own, **self._stored()}
                self._seen = tick
            except StoreUnavailable as error:
                self._not_before_s = time.monotonic() + LOOK_EVERY_S
                log.warning("limits of models: those known before still hold: %s", error)


class Lookout:
    """Looks in a worker's main process whether the stored limits have changed."""

    def __init__(self, stored: Callable[[], Mapping[str, Limit]], tick: Tick) -> None:
        self._stored = stored
        self._tick = tick
        self._last: Mapping[str, Limit] | None = None

    def look(self) -> None:
        """Look once.

        Raises:
            StoreUnavailable
        """
        now = dict(self._stored())
        if now != self._last:  # the first time as well: a child may have read before this look
            self._last = now
            self._tick.raise_()
