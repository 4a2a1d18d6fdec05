"""A second mailbox of every worker, for who may look and not touch.

Celery's own mailbox takes ``inspect`` and ``control`` alike: whoever may publish there may shut
workers down. To this one workers answer what only asks. Its name is an exchange of its own, so a
broker's permissions can open it to monitoring alone (``deploy/redis/users.acl``). A program uses
it with ``STEPKEEPER_WATCH_ONLY=true``, which is ``control_exchange`` in Celery's settings.
"""

from __future__ import annotations

from typing import Any

from celery import bootsteps
from celery.worker.consumer.tasks import Tasks
from celery.worker.control import Panel
from celery.worker.pidbox import Pidbox
from kombu.pidbox import Mailbox

EXCHANGE = "watch"

TRANSPORT_OPTIONS: dict[str, Any] = {
    "unacked_key": "watch.unacked",
    "unacked_index_key": "watch.unacked_index",
    "unacked_mutex_key": "watch.unacked_mutex",
}
"""Of a Redis broker: one who watches does not give back what workers have not acknowledged."""

_NOT_JUST_ASKING = frozenset({"hello", "memdump", "memsample", "objgraph"})
# ``hello`` takes over a list of revoked tasks; the others write files and load the worker.


class Onlookers(bootsteps.StartStopStep):
    """The mailbox, beside Celery's own in a worker's consumer."""

    label = "Onlookers"
    requires = (Tasks,)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        self._box = Pidbox(c)
        # Its own node listens where commands are taken: ours, to less.
        self._box.node = _mailbox(c.app).Node(
            c.hostname, handlers=_questions(), state=self._box.node.state
        )

    def start(self, c: Any) -> None:
        """Called when the consumer starts, at each connection."""
        self._box.start(c)

    def stop(self, c: Any) -> None:
        """Called when the consumer stops."""
        self._box.stop(c)

    def shutdown(self, c: Any) -> None:
        """Called when the worker ends."""
        self._box.shutdown(c)

    def include_if(self, c: Any) -> bool:
        """Whether the broker has broadcasts, and the worker hears them."""
        return bool(
            c.app.conf.worker_enable_remote_control
            and c.conninfo.supports_exchange_type("fanout")
            and c.app.conf.control_exchange != EXCHANGE
        )


def _mailbox(app: Any) -> Mailbox:
    theirs = app.control.mailbox
    return Mailbox(
        EXCHANGE,
        type="fanout",
        accept=theirs.accept,
        serializer=theirs.serializer,
        producer_pool=theirs.producer_pool,
        queue_ttl=theirs.queue_ttl,
        queue_expires=theirs.queue_expires,
        reply_queue_ttl=theirs.reply_queue_ttl,
        reply_queue_expires=theirs.reply_queue_expires,
    )


def _questions() -> dict[str, Any]:
    """The commands that change nothing in the worker that hears them."""
    return {
        name: handler
        for name, handler in Panel.data.items()  # aliases have no description of their own
        if name in Panel.meta and _only_asks(name)
    }


def _only_asks(name: str) -> bool:
    return Panel.meta[name].type == "inspect" and name not in _NOT_JUST_ASKING
