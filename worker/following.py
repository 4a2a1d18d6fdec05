"""What follows from a slice's end, outside of publishing an outcome."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from celery import states

from api_client.contract import JobSpec, JobStatus, JobView, Pause
from api_client.errors import JobFailed
from worker.ends import Deferred, Ended, HandedOver, SliceEnd, Suspended
from worker.models.base import ModelError
from worker.redact import Redactor
from worker.telemetry import events

if TYPE_CHECKING:
    from worker.service import Service

PAUSED = "PAUSED"
_REDACTOR = Redactor()
LOOK_AGAIN_S = 0.05


def follow_up(service: Service, end: SliceEnd) -> None:
    """Do what a slice's end asks for: hints, states and events on Celery's side.

    An ended job is hinted: whoever takes the hint publishes its outcome.
    """
    match end:
        case Ended(spec=spec):
            service.settle_family(end)
            service.hint(spec, again=True)
        case HandedOver(spec=spec) if not spec.tenant:  # a tenant's is hinted at its next turn
            service.hint(spec, again=True)
        case Suspended():
            report_paused(service, end)
        case Deferred():
            report_deferred(service, end)


def report_paused(service: Service, end: Suspended) -> None:
    """Show the pause as the task's state; Celery's event bus has been told.

    The pause is durable already, so a person may answer, and another worker finish the job, in
    between: a final state that this report came too late for is put back.
    """
    _show(service, end.spec, PAUSED, pause_meta(end.pause))


def pause_meta(pause: Pause) -> dict[str, str]:
    """What Celery's result backend shows of a paused job."""
    return {"reason": pause.kind, "question": pause.question, "pause_id": pause.id}


def _show(service: Service, spec: JobSpec, state: str, value: Any) -> None:
    """Store a state that is not final, if anybody wants one."""
    if not spec.message.get("ignore_result"):
        service.app.backend.store_result(spec.job_id, value, state)
        _put_back(service, spec.job_id)


def _settled(service: Service, job_id: str) -> JobView:
    """How the job stands; if its end is being published this moment, once that is over.

    What this process has stored may have come behind the final state, and before the word that it
    is published. A publisher that dies leaves the end to another, who stores it anew.
    """
    waiting = threading.Event()
    tries = max(1, int(service.settings.publish_grace_s / LOOK_AGAIN_S))
    view = service.store.read(job_id)
    while view.outcome is not None and not view.published and tries:
        waiting.wait(LOOK_AGAIN_S)
        view, tries = service.store.read(job_id), tries - 1
    return view


def _put_back(service: Service, job_id: str) -> None:
    view = _settled(service, job_id)
    if not view.published or view.outcome is None:
        return
    backend, outcome = service.app.backend, view.outcome
    match view.status:
        case JobStatus.SUCCEEDED:
            backend.store_result(job_id, outcome.value, states.SUCCESS)
        case JobStatus.FAILED:
            backend.mark_as_failure(job_id, JobFailed(outcome.text, outcome.reason))
        case JobStatus.CANCELLED:
            backend.mark_as_revoked(job_id, outcome.text)
            service.bus.send(events.state_shown(job_id, states.REVOKED))


def report_deferred(service: Service, end: Deferred) -> None:
    """Show that the job waits for a model; a final state that this comes too late for is put back.

    Celery reads the result of RETRY as an exception, and fails at anything else: at each look at
    the state, and when the final state is to be stored over it.
    """
    _show(service, end.spec, states.RETRY, ModelError(_REDACTOR.error(end.text)))
