"""Asking the broker itself: whether it is there, and how much waits in it."""

from __future__ import annotations

import logging
from typing import Any

from celery import Celery

log = logging.getLogger(__name__)


def waiting(app: Celery) -> int | None:
    """Messages in the queues from which this worker is meant to take; operators may change that.

    Returns:
        ``None`` if the broker cannot be reached.
    """
    connection = app.connection_for_read()
    try:
        with connection:
            return sum(_depth(connection, name) for name in list(app.amqp.queues.consume_from))
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
