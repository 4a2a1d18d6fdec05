"""How a worker's main process handles the messages of agents."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery import states
from celery.app.task import Context
from celery.worker.request import Request
from celery.worker.state import task_ready

from api_client.errors import InvalidInput, StoreUnavailable
from api_client.hints import HINT_HEADER

log = logging.getLogger(__name__)

_KEPT = {
    "callbacks": "link",
    "errbacks": "link_error",
    "chain": "chain",
    "chord": "chord",
    "group": "group_id",
    "group_index": "group_index",
    "root_id": "root_id",
    "parent_id": "parent_id",
    "reply_to": "reply_to",
    "ignore_result": "ignore_result",
    "shadow": "shadow",
    "stamped_headers": "stamped_headers",
}

_OF_THE_BROKER = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count")
"""Headers with which RabbitMQ says what it did with a message."""


def options_of(request: Context) -> dict[str, Any]:
    """The options with which the running message was sent, by the names of ``apply_async``."""
    options = {name: getattr(request, attribute) for attribute, name in _KEPT.items()}
    delivery = request.delivery_info or {}
    options["priority"] = delivery.get("priority")
    if delivery.get("exchange"):
        options["exchange"] = delivery["exchange"]
        options["routing_key"] = delivery.get("routing_key")
    elif delivery.get("routing_key"):
        options["queue"] = delivery["routing_key"]
    options.update(request.stamps or {})
    options["headers"] = {
        name: value
        for name, value in (request.headers or {}).items()
        if not name.startswith(_OF_THE_BROKER)
    }
    return options


class AgentRequest(Request):
    """A message of an agent; a pool process that dies is no failure of the job.

    Celery would record FAILURE, run the errbacks and fail the chord. The job goes on from its
    checkpoint instead, and the store counts the try.
    """

    _already_revoked: bool
    _already_cancelled: bool
    _eta: datetime | None
    _expires: datetime | None
    _request_dict: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        service = self.task.service  # type: ignore[attr-defined]
        service.seen_queues.add((self.delivery_info or {}).get("routing_key"))
        has_its_time = self._eta is not None or self._expires is not None
        if has_its_time and HINT_HEADER not in self._request_dict:
            self._leave_to_the_store()

    def _leave_to_the_store(self) -> None:
        """When a job may start is the store's affair: not this worker's, which may die.

        Nor that of its message, whose double would otherwise expire when the job has long begun.
        Passed to the pool at once, the message finds out whether the job is due. One that no job
        can be made of is refused there.
        """
        try:
            self.task.accept(self._context, self._args, self._kwargs)  # type: ignore[attr-defined]
        except StoreUnavailable as error:
            log.warning("job %s: waits for its time in this worker: %s", self.id, error)
            return
        except InvalidInput as error:
            log.debug("job %s: %s", self.id, error)
        self._eta = self._expires = None

    def send_event(self, type: str, **fields: Any) -> None:
        """Called for what Celery tells of the message: monitors shall believe it at any moment.

        Without its state as a field, REVOKED would not be shown of a job that is shown as PAUSED.
        """
        if type == "task-revoked":
            fields["state"] = states.REVOKED
        super().send_event(type, **fields)

    def on_failure(
        self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False
    ) -> Any:
        """Called in the main process when the pool reports an error."""
        error = getattr(exc_info.exception, "exc", exc_info.exception)
        if isinstance(error, (WorkerLostError, SystemExit, KeyboardInterrupt)) and not (
            self._already_revoked or self._already_cancelled
        ):
            return self._worker_lost(repr(error))
        return super().on_failure(exc_info, send_failed_event, return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Called in the main process when a time limit is over."""
        if soft:
            super().on_timeout(soft, timeout)
        else:
            self._worker_lost(repr(TimeLimitExceeded(timeout)))

    def _worker_lost(self, reason: str) -> None:
        task_ready(self)
        log.warning("job %s: its process was lost (%s); it goes on elsewhere", self.id, reason)
        service = self.task.service  # type: ignore[attr-defined]
        try:
            service.store.abandon(f"{service.owner_prefix}{self.worker_pid}/", job_id=self.id)
        except StoreUnavailable as error:
            log.warning("job %s: its lease runs out by itself: %s", self.id, error)
