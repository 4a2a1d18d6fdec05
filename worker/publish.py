"""Publishing an outcome through Celery: once, and with everything that hangs on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import states
from celery.backends.base import DisabledBackend
from celery.exceptions import Ignore

from api_client.contract import JobStatus
from api_client.errors import JobFailed
from worker.ends import Ended
from worker.telemetry import events

if TYPE_CHECKING:
    from worker.tasks import AgentTask


def publish(task: AgentTask, end: Ended) -> Any:
    """Hand the outcome to Celery: the answer is returned, a failure raised.

    Raises:
        JobFailed: Celery records it as FAILURE and runs the errbacks.
        Ignore: nothing is left for Celery to do.
    """
    if end.status is JobStatus.CANCELLED:
        _publish_revoked(task, end)
    if end.status is JobStatus.FAILED:
        raise JobFailed(end.outcome.text, end.outcome.reason)
    if end.again and _has_succeeded(task, end.spec.job_id):
        _publish_again(task, end)
    return end.outcome.value


def _has_succeeded(task: AgentTask, job_id: str) -> bool:
    if isinstance(task.backend, DisabledBackend):  # nobody can tell
        return False
    return bool(task.backend.get_state(job_id) == states.SUCCESS)


def _publish_again(task: AgentTask, end: Ended) -> None:
    """The result is there, so the callbacks, which go out before it, have been sent.

    The process died before it could say so. A chord's part is counted after the result is
    stored, so it is counted again; the backend counts each part once.
    """
    task.backend.mark_as_done(end.spec.job_id, end.outcome.value, request=task.request)
    task.service.published(end.spec.job_id, end.spec.agent)
    raise Ignore


def _publish_revoked(task: AgentTask, end: Ended) -> None:
    job_id = end.spec.job_id
    task.backend.mark_as_revoked(
        job_id,
        end.outcome.text,
        request=task.request,
        store_result=not task.request.ignore_result,
    )
    task.service.bus.send(events.revoked(job_id))
    task.service.published(job_id, end.spec.agent)
    raise Ignore
