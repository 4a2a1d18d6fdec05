"""How a worker takes messages, and takes leave of a broker connection that is lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from celery.worker.consumer import Consumer

from api_client.contract import TASK_PREFIX
from api_client.errors import StoreUnavailable
from api_client.hints import HINT_HEADER
from worker.forking import no_fork
from worker.runner import no_such_agent

log = logging.getLogger(__name__)

RETRY_S = 4.0
"""The longest pause between two tries to reach a broker that is away; Celery's is 30 s."""


def with_calm_leave(base: type[Consumer], missed: Callable[[str], None]) -> type[Consumer]:
    """The app's consumer class, which gives back no messages over a connection that is lost.

    And which fails no job for an agent that only other workers have.

    kombu's Redis transport keeps a message whose acknowledgement was cut off, and would put it
    back into the queue over the very connection that has gone: that ends the whole worker. For
    jobs such a message is a hint like any other. Other tasks that acknowledge late are delivered
    again after the visibility timeout, as after a crash, and not while they still run.

    Args:
        missed: told the id of a job whose hint has come to this worker in vain.
    """

    class AgentConsumer(base):  # type: ignore[misc, valid-type]
        def ensure_connected(self, conn: Any) -> Any:
            conn.ensure_connection = partial(conn.ensure_connection, interval_max=RETRY_S)
            return super().ensure_connected(conn)

        def on_connection_error_after_connected(self, exc: BaseException) -> None:
            channel: Any = getattr(self.task_consumer, "channel", None)
            if channel is not None:
                channel.do_restore = False
            super().on_connection_error_after_connected(exc)

        def on_unknown_task(self, body: Any, message: Any, exc: Any) -> None:
            """Called for a message whose task this worker does not have.

            Celery would record a failure. A hint is only dropped: the store has its job, and sweeps
            hint it until a worker that has the agent takes it up.
            """
            task, job_id = str(message.headers.get("task")), str(message.headers.get("id"))
            if HINT_HEADER not in message.headers or not task.startswith(TASK_PREFIX):
                super().on_unknown_task(body, message, exc)
                return
            agent = task.removeprefix(TASK_PREFIX)
            log.error("job %s is left alone: %s", job_id, no_such_agent(agent))
            message.ack_log_error(log, self.connection_errors)
            try:
                with no_fork():
                    missed(job_id)
            except StoreUnavailable as error:
                log.warning("job %s: hinted again late: %s", job_id, error)

    return AgentConsumer


def send_celerys_events(consumer: Any, within_s: float) -> None:
    """Have the events sent that Celery keeps until its event loop turns; not from that loop.

    Waits for it, but for so many seconds at most.
    """
    if consumer.hub is None:  # it keeps none
        return
    sent = threading.Event()

    def send() -> None:
        if consumer.event_dispatcher is not None:
            consumer.event_dispatcher.flush()
        sent.set()

    consumer.hub.call_soon(send)
    sent.wait(within_s)


class OneByOne(Consumer):
    """Takes the next message when the last one has been acknowledged, which is before it runs.

    The nearest to ``worker_disable_prefetch`` on brokers for which Celery ignores that: a busy
    worker keeps one message from idle ones, not one for each slot. It also keeps the threads of a
    pool from acknowledging at the same time, over a connection that is not made for that.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "initial_prefetch_count": 1})
