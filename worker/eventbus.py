"""Sending events of jobs on Celery's event bus: in order, beside the jobs, and never at their cost.

Events promise nothing: without a broker they are dropped, the oldest first, and no job waits. Nor
may they tell a lie: what puts the state of a running job back is not sent when it is too late.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from celery import Celery

from worker.forking import no_fork
from worker.telemetry.events import SHOW_RETRY, SHOWS_RUNNING, Event, state_shown

log = logging.getLogger(__name__)

MOST_WAITING = 1000
MOST_AT_ONCE = 200
GATHER_S = 0.05
"""What comes in so short a time goes in one message: one a step would cost more than the step."""

LATE_S = 5.0
"""From here on nobody knows whether a job that was running still is."""

LAST_EVENTS_S = 1.0
"""A process that ends waits so long for what it has not sent yet."""


OVER_S = 0.2
"""A job that has ended waits so long for events of it that are being sent at this moment."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Events of one job that belong together.

    Attributes:
        at: when they were handed over, in seconds since the epoch.
    """

    at: float
    events: tuple[Event, ...]

    @property
    def job_id(self) -> Any:
        return self.events[0][1]["uuid"]

    @property
    def shows_running(self) -> bool:
        """Whether the last of them makes monitors show a running job."""
        return self.events[-1][0] == SHOWS_RUNNING

    @property
    def shows_retry(self) -> bool:
        """Whether the last of them makes monitors show a job that waits for its model.

        Behind that they believe whatever comes, so also the start of the same slice.
        """
        return self.events[-1][0] in SHOW_RETRY


class EventBus:
    """One process's way to the event bus: a queue, and a thread that starts with the first event.

    Args:
        node: the worker's name, under which the events are sent.
        wanted: whether this worker sends events of tasks.
        celerys_first: waits a moment until those are sent that Celery itself holds back.
    """

    def __init__(
        self,
        app: Celery,
        node: str,
        wanted: Callable[[], bool],
        celerys_first: Callable[[], None] = lambda: None,
    ) -> None:
        self.wanted = wanted
        self._celerys_first = celerys_first
        self._app = app
        self._node = node
        self._changed = threading.Condition()
        self._waiting: deque[_Group] = deque(maxlen=MOST_WAITING)
        self._sending: list[_Group] = []
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._connection: Any = None
        self._dispatcher: Any = None

    def send(self, *events: Event) -> None:
        """Send events, which monitors see one after the other; does nothing if nobody wants any."""
        if not self.wanted():
            return
        with self._changed:
            self._waiting.append(_Group(time.time(), events))
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="stepkeeper-events", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def over(self, job_id: str, state: str) -> None:
        """A job has ended: no event may show it as running behind what Celery says of it.

        What waits is sent all the same, and shows its end.

        Args:
            state: Celery's, such as ``SUCCESS``.
        """
        with self._changed:
            for place, group in enumerate(self._waiting):
                if group.job_id == job_id and group.shows_running:
                    told = (*group.events[:-1], state_shown(job_id, state))
                    self._waiting[place] = replace(group, events=told)
            self._changed.wait_for(
                lambda: all(group.job_id != job_id for group in self._sending), OVER_S
            )

    def close(self) -> None:
        """Send what waits, for a second at most, and no more."""
        with self._changed:
            self._closing.set()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(LAST_EVENTS_S)

    def _run(self) -> None:
        while batch := self._take():
            if any(group.shows_retry for group in batch):
                self._celerys_first()
            if not (self._sent(batch) or self._sent(batch)):
                log.warning("events of %d jobs could not be sent, and are dropped", len(batch))
            with self._changed:
                self._sending = []
                self._changed.notify_all()
            if len(batch) < MOST_AT_ONCE:
                self._closing.wait(GATHER_S)
        self._disconnect()

    def _take(self) -> list[_Group]:
        """What waits; nothing when it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing.is_set())
            count = min(MOST_AT_ONCE, len(self._waiting))
            self._sending = [self._waiting.popleft() for _ in range(count)]
            return self._sending

    def _sent(self, batch: list[_Group]) -> bool:
        """Whether all were sent, in one message; over a new connection, if the old one is lost."""
        try:
            with no_fork():
                if self._dispatcher is None:
                    self._connect()
                self._dispatch(batch)
        except Exception as error:  # noqa: BLE001 - whatever a transport raises; a job goes on
            log.debug("events of jobs: %s", error)
            self._disconnect()
            return False
        return True

    def _dispatch(self, batch: list[_Group]) -> None:
        late = time.time() - LATE_S
        last = {group.job_id: group for group in batch}
        for group in batch:
            if group.at < late and group.shows_running:
                continue
            # What shows a running job is needed once a message: behind the last of its events.
            needless = group.shows_running and group is not last[group.job_id]
            for kind, fields in group.events[:-1] if needless else group.events:
                self._dispatcher.send(kind, timestamp=group.at, **fields)
        self._dispatcher.flush(errors=False)

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
