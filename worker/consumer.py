"""How a worker takes leave of a broker connection that is lost."""

from __future__ import annotations

from typing import Any

from celery.worker.consumer import Consumer


def with_calm_leave(base: type[Consumer]) -> type[Consumer]:
    """The app's consumer class, which gives back no messages over a connection that is lost.

    kombu's Redis transport keeps a message whose acknowledgement was cut off, and would put it
    back into the queue over the very connection that has gone: that ends the whole worker. For
    jobs such a message is a hint like any other. Other tasks that acknowledge late are delivered
    again after the visibility timeout, as after a crash, and not while they still run.
    """

    class AgentConsumer(base):  # type: ignore[misc, valid-type]
        def on_connection_error_after_connected(self, exc: BaseException) -> None:
            channel: Any = getattr(self.task_consumer, "channel", None)
            if channel is not None:
                channel.do_restore = False
            super().on_connection_error_after_connected(exc)

    return AgentConsumer
