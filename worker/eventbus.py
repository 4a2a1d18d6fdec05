"""Sending events of jobs on Celery's event bus: in order, beside the jobs, and never at their cost.

Events promise nothing: without a broker they are dropped, the oldest first, and no job waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from celery import Celery

from worker.forking import no_fork
from worker.telemetry.events import Event

log = logging.getLogger(__name__)

MOST_WAITING = 1000
MOST_AT_ONCE = 100
LAST_EVENTS_S = 1.0
"""A process that ends waits so long for what it has not sent yet."""


class EventBus:
    """One process's way to the event bus: a queue, and a thread that starts with the first event.

    Args:
        node: the worker's name, under which the events are sent.
        wanted: whether this worker sends events of tasks.
    """

    def __init__(self, app: Celery, node: str, wanted: Callable[[], bool]) -> None:
        self.wanted = wanted
        self._app = app
        self._node = node
        self._changed = threading.Condition()
        self._waiting: deque[Sequence[Event]] = deque(maxlen=MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._closed = False
        self._connection: Any = None
        self._dispatcher: Any = None

    def send(self, *events: Event) -> None:
        """Send events, which monitors see one after the other; does nothing if nobody wants any."""
        if not self.wanted():
            return
        at = time.time()
        with self._changed:
            self._waiting.append([(kind, {"timestamp": at, **rest}) for kind, rest in events])
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._run, name="stepkeeper-events", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Send what waits, for a second at most, and no more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(LAST_EVENTS_S)

    def _run(self) -> None:
        while batch := self._take():
            if not (self._sent(batch) or self._sent(batch)):
                log.warning("%d events of jobs could not be sent, and are dropped", len(batch))
        self._disconnect()

    def _take(self) -> list[Event]:
        """What waits; nothing when it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            count = min(MOST_AT_ONCE, len(self._waiting))
            return [event for _ in range(count) for event in self._waiting.popleft()]

    def _sent(self, batch: list[Event]) -> bool:
        """Whether all were sent, in one message; over a new connection, if the old one is lost."""
        try:
            with no_fork():
                if self._dispatcher is None:
                    self._connect()
                for kind, fields in batch:
                    self._dispatcher.send(kind, **fields)
                self._dispatcher.flush(errors=False)
        except Exception as error:  # noqa: BLE001 - whatever a transport raises; a job goes on
            log.debug("events of jobs: %s", error)
            self._disconnect()
            return False
        return True

    def _connect(self) -> None:
        self._connection = self._app.connection_for_write(heartbeat=0)
        self._dispatcher = self._app.events.Dispatcher(
            self._connection,
            self._node,
            channel=self._connection.channel(),  # tries once; the dispatcher's own would for ever
            buffer_while_offline=False,
            buffer_group={"task"},
            buffer_limit=10 * MOST_AT_ONCE,
        )

    def _disconnect(self) -> None:
        connection, self._connection, self._dispatcher = self._connection, None, None
        if connection is not None:
            with no_fork():
                connection.release()
