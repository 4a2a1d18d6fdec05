"""Hints: Celery messages that tell a worker to look at a job.

A hint has the job's id as its task id and the Celery options of the first message, so that links,
chains and chords see the late answer. It promises nothing: the record in the store is the truth.
The message is built and sent without ``send_task``, which would also subscribe this process to
the result of every job that it hints.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError
from kombu.utils.json import dumps as kombu_dumps

from api_client.contract import JobSpec, task_name
from api_client.sealing import keyring
from api_client.tenants import RANKS

log = logging.getLogger(__name__)

HINT_HEADER = "stepkeeper"
"""In messages whose job has a record in the store."""

MAX_SHOWN_CHARACTERS = 2_000

MOST_URGENT_IN_AMQP = 9

_ROUTING = ("queue", "exchange", "routing_key", "priority", "delivery_mode", "compression")
_CANVAS = {
    "link": "callbacks",
    "link_error": "errbacks",
    "chain": "chain",
    "chord": "chord",
    "group_id": "group_id",
    "group_index": "group_index",
    "root_id": "root_id",
    "parent_id": "parent_id",
    "reply_to": "reply_to",
    "ignore_result": "ignore_result",
    "shadow": "shadow",
    "stamped_headers": "stamped_headers",
    "replaced_task_nesting": "replaced_task_nesting",
}
KEPT_OPTIONS = frozenset([*_ROUTING, *_CANVAS, "headers"])
"""Options of a first message that every later hint carries as well."""


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that hints keep, as plain JSON values; signatures become dicts."""
    kept = {
        name: value
        for name, value in options.items()
        if name in KEPT_OPTIONS and value not in (None, [], {})
    }
    stamps = {
        name: options[name] for name in options.get("stamped_headers") or () if name in options
    }
    for name in ("link", "link_error"):
        if name in kept and not isinstance(kept[name], (list, tuple)):
            kept[name] = [kept[name]]
    if "queue" in kept and not isinstance(kept["queue"], str):
        kept["queue"] = kept["queue"].name
    if "exchange" in kept and not isinstance(kept["exchange"], str):
        kept["exchange"] = kept["exchange"].name
    if stamps:
        kept["stamps"] = stamps
    plain: dict[str, Any] = json.loads(kombu_dumps(kept))
    return plain


def send_hint(app: Celery, spec: JobSpec, *, declares: bool = True, again: bool = False) -> None:
    """Publish one hint.

    Args:
        declares: make its queue first, if there is none.
        again: the job has been hinted before, and monitors know of it: no ``task-sent`` event.

    Raises:
        Whatever the broker's transport raises; the sweep covers for a hint that was not sent.
    """
    name = task_name(spec.agent)
    args, kwargs = shown_arguments(spec)
    options: dict[str, Any] = dict(spec.message)
    headers = {**options.pop("headers", {}), HINT_HEADER: 1}
    stamps = options.pop("stamps", {})
    routing = {key: options.pop(key) for key in _ROUTING if key in options}
    canvas = {_CANVAS[key]: value for key, value in options.items() if key in _CANVAS}
    routing = app.amqp.router.route(routing, name, tuple(args), kwargs)
    message = app.amqp.create_task_message(
        spec.job_id,
        name,
        args=args,
        kwargs=kwargs,
        create_sent_event=app.conf.task_send_sent_event and not again,
        **canvas,
        **stamps,
    )
    with app.producer_or_acquire(None) as producer:
        if spec.priority:
            routing["priority"] = celery_priority(spec.priority, producer.connection)
        if not declares:
            routing["declare"] = ()
        app.amqp.send_task_message(producer, name, message, headers=headers, **routing)


def queue_of(app: Celery, spec: JobSpec) -> str:
    """The queue to which a job's hints go; empty if only the broker knows it."""
    routing = {key: spec.message[key] for key in _ROUTING if key in spec.message}
    args, kwargs = shown_arguments(spec)
    queue = app.amqp.router.route(routing, task_name(spec.agent), tuple(args), kwargs).get("queue")
    return str(getattr(queue, "name", queue) or "")


def celery_priority(priority: str, connection: Any) -> int:
    """The number of a class of priority: RabbitMQ gives the highest first, Redis the lowest."""
    rank = RANKS[priority]
    return MOST_URGENT_IN_AMQP - rank if connection.transport.driver_type == "amqp" else rank


def broker_errors(connection: Any) -> tuple[type[BaseException], ...]:
    """What a broker that is away, or refuses, raises over this connection of kombu's."""
    return (
        OperationalError,
        OSError,
        *connection.connection_errors,
        *connection.channel_errors,
    )


def try_hint(app: Celery, spec: JobSpec, *, again: bool = False) -> bool:
    """Publish one hint; ``False``, with a warning in the log, if the broker is away.

    Args:
        again: see ``send_hint``.
    """
    connection = app.connection_for_write()
    try:
        try:
            send_hint(app, spec, again=again)
        except connection.channel_errors as error:
            # The queue is there, and has properties that this program does not know.
            log.debug("job %s: hinted without declaring its queue: %s", spec.job_id, error)
            send_hint(app, spec, declares=False, again=again)
    except broker_errors(connection) as error:
        log.warning("job %s: its hint could not be sent, a sweep will: %s", spec.job_id, error)
        return False
    return True


def shown_arguments(spec: JobSpec) -> tuple[list[Any], dict[str, Any]]:
    """What a hint shows as its arguments: the input, cut if long; workers read the record.

    Where the store is encrypted the input is not shown.
    """
    text = spec.input if isinstance(spec.input, str) else json.dumps(spec.input)
    shown = spec.input
    if len(text) > MAX_SHOWN_CHARACTERS:
        shown = f"{text[:MAX_SHOWN_CHARACTERS]}… ({len(text)} characters)"
    kwargs: dict[str, Any] = {}
    if spec.tenant:
        kwargs["tenant"] = spec.tenant
    if spec.labels:
        kwargs["labels"] = list(spec.labels)
    return [] if keyring() else [shown], kwargs
