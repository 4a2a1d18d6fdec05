"""Asking the broker itself: whether it is there, and how much waits in it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from celery import Celery

from api_client.contract import JobSpec
from api_client.hints import queue_of

log = logging.getLogger(__name__)


class Backlog:
    """Which queues hold messages, as far as one sweep asks; each is looked at once.

    A hint that is repeated while messages wait before it is no news to anybody, and with thousands
    of jobs in a queue the repeated ones would soon be the most of them.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._holds: dict[str, bool] = {}

    def holds(self, spec: JobSpec) -> bool:
        """Whether messages wait in the queue of a job; not if the broker cannot be asked."""
        queue = queue_of(self._app, spec)
        if queue not in self._holds:
            self._holds[queue] = bool(queue) and bool(_waiting_in(self._app, [queue]))
        return self._holds[queue]


def waiting(app: Celery) -> int | None:
    """Messages in the queues from which this worker is meant to take; operators may change that.

    Returns:
        ``None`` if the broker cannot be reached.
    """
    return _waiting_in(app, list(app.amqp.queues.consume_from))


def _waiting_in(app: Celery, queues: Sequence[str]) -> int | None:
    connection = app.connection_for_read()
    try:
        with connection:
            return sum(_depth(connection, name) for name in queues)
    except _lost(connection) as error:
        log.debug("the broker cannot be reached: %s", error)
        return None


def reachable(app: Celery) -> bool:
    """Whether the broker takes a connection."""
    connection: Any = app.connection_for_write()
    try:
        with connection:
            connection.connect()
    except _lost(connection) as error:
        log.debug("the broker cannot be reached: %s", error)
        return False
    return True


def _lost(connection: Any) -> tuple[type[BaseException], ...]:
    return (OSError, *connection.connection_errors)


def _depth(connection: Any, queue: str) -> int:
    """How many messages wait in a queue; none in one that nobody has made yet."""
    channel = connection.channel()  # a refusal closes it, so each queue has its own
    try:
        return int(channel.queue_declare(queue=queue, passive=True).message_count)
    except connection.channel_errors as error:
        log.debug("queue %s: %s", queue, error)
        return 0
    finally:
        channel.close()
