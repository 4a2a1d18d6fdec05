"""What Celery is told at the end of a slice: results, states, events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import states
from celery.exceptions import Ignore

from api_client.contract import JobStatus
from api_client.errors import JobFailed
from worker.ends import Deferred, Ended, Suspended
from worker.models.base import ModelError

if TYPE_CHECKING:
    from worker.tasks import AgentTask

PAUSED = "PAUSED"


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
    return bool(task.backend.get_state(job_id) == states.SUCCESS)


def _publish_again(task: AgentTask, end: Ended) -> None:
    """The result is there, so the callbacks, which go out before it, have been sent.

    The process died before it could say so. A chord's part is counted after the result is
    stored, so it is counted again; the backend counts each part once.
    """
    task.backend.mark_as_done(end.spec.job_id, end.outcome.value, request=task.request)
    task.service.store.published(end.spec.job_id)
    raise Ignore


def _publish_revoked(task: AgentTask, end: Ended) -> None:
    job_id = end.spec.job_id
    task.backend.mark_as_revoked(job_id, end.outcome.text, request=task.request)
    task.send_event("task-revoked", terminated=False, signum=None, expired=False)
    task.service.store.published(job_id)
    raise Ignore


def report_paused(task: AgentTask, end: Suspended) -> None:
    """Show the pause as the task's state, and on Celery's event bus.

    The pause is durable already, so a person may answer, and another worker finish the job, in
    between: a final state that this report came too late for is put back.
    """
    pause = end.pause
    meta = {"reason": pause.kind, "question": pause.question, "pause_id": pause.id}
    _report(task, end.spec.job_id, PAUSED, meta)
    task.send_event("task-paused", reason=pause.kind, question=pause.question, pause_id=pause.id)


def report_deferred(task: AgentTask, end: Deferred) -> None:
    """Show that the job waits for a model.

    Celery reads the result of RETRY as an exception, and fails at anything else: at each look at
    the state, and when the final state is to be stored over it.
    """
    _report(task, end.spec.job_id, states.RETRY, ModelError(end.text))
    task.send_event("task-retried", exception=end.text, traceback="")


def _report(task: AgentTask, job_id: str, state: str, meta: dict[str, Any] | Exception) -> None:
    """Store an intermediate state."""
    task.backend.store_result(job_id, meta, state, request=task.request)
