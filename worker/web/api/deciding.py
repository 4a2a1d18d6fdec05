"""The inbox, and what people decide."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query

from api_client.contract import PauseKind, Signal
from api_client.inbox import InboxFilter, Order
from worker.web.api.strict import IdempotencyKey, JobId, StrictRoute, read_key
from worker.web.callers import Role
from worker.web.documents import JOB, MANY, MESSAGES, SIGNALS, answer, errors, for_roles
from worker.web.identify import DeskHere
from worker.web.shapes import (
    Accepted,
    CancelAnswer,
    Heard,
    JobList,
    ManyAnswer,
    ManyLine,
    ManyRequest,
    MessageRequest,
    WishRequest,
)

router = APIRouter(tags=["people"], route_class=StrictRoute)

_ACCEPTED = {"job_id": JOB["job_id"], "pause_id": "p1", "kind": "approve", "by": "anna"}
_CANCELLED = {"job_id": JOB["job_id"], "status": "cancelled", "pending": False}
_HEARD = {"job_id": JOB["job_id"], "by": "anna"}
_MANY = {
    "dry_run": True,
    "done": 1,
    "refused": 1,
    "more": False,
    "jobs": [
        {"job_id": "j1", "pause_id": "p1", "done": True, "error": ""},
        {"job_id": "j2", "pause_id": "p3", "done": False, "error": "this pause takes no 'retry'"},
    ],
}
_REFUSALS = ("not-paused", "wrong-pause", "already-answered", "signal-refused")


@router.get(
    "/inbox",
    operation_id="inbox",
    responses={
        200: answer("The longest waiting first.", {"jobs": [JOB], "next": "", "total": 1}),
        **errors(),
    },
    openapi_extra=for_roles(Role.REVIEW, Role.OPERATE),
)
def inbox(
    desk: DeskHere,
    agent: Annotated[str | None, Query(max_length=64)] = None,
    label: Annotated[str | None, Query(max_length=100)] = None,
    kind: PauseKind | None = None,
    tenant: Annotated[str | None, Query(max_length=100)] = None,
    older_than_s: Annotated[
        float | None, Query(ge=0, le=1e9, description="Waiting for at least so many seconds.")
    ] = None,
    order: Annotated[Order, Query(description="By waiting time, or by deadline.")] = "oldest",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str, Query(max_length=500, description="`next` of the page before.")] = "",
) -> JobList:
    """Jobs that wait for a person whom this key can be."""
    desk.needs(Role.REVIEW, Role.OPERATE)
    wanted = InboxFilter(
        agent=agent, label=label, kind=kind, tenant=tenant, older_than_s=older_than_s
    )
    return JobList.of(desk.inbox(wanted, order=order, limit=limit, cursor=cursor))


@router.post(
    "/jobs/{job_id}/signals",
    operation_id="decide",
    responses={
        200: answer("The first decision: the job goes on.", _ACCEPTED),
        **errors(job=True, extra={409: _REFUSALS}),
    },
    openapi_extra=for_roles(Role.REVIEW),
)
def decide(
    job_id: JobId,
    body: Annotated[Signal, Body(openapi_examples=SIGNALS)],
    desk: DeskHere,
    pause: Annotated[
        str | None,
        Query(
            max_length=100, description="The pause that was looked at; the open one, if not given."
        ),
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> Accepted:
    """Close a job's pause with a decision. The first one wins; a second is told who was first."""
    decided = desk.decide(job_id, body, pause_id=pause, signal_id=read_key(idempotency_key))
    return Accepted(job_id=job_id, pause_id=decided.pause_id, kind=decided.kind, by=decided.by)


@router.post(
    "/jobs/{job_id}/cancel",
    operation_id="cancel",
    responses={200: answer("What became of it.", _CANCELLED), **errors(job=True)},
    openapi_extra=for_roles(Role.SUBMIT, Role.OPERATE),
)
def cancel(job_id: JobId, desk: DeskHere, body: WishRequest | None = None) -> CancelAnswer:
    """End a job without an answer. One that has ended stays as it is."""
    wish = body or WishRequest()
    cancelled = desk.cancel(job_id, by=wish.by, note=wish.note)
    return CancelAnswer(job_id=job_id, status=cancelled.status, pending=cancelled.pending)


@router.post(
    "/signals",
    operation_id="decide_many",
    responses={200: answer("What became of each.", _MANY), **errors()},
    openapi_extra=for_roles(Role.REVIEW),
)
def decide_many(
    body: Annotated[ManyRequest, Body(openapi_examples=MANY)], desk: DeskHere
) -> ManyAnswer:
    """Decide many pauses in the same way; unless told otherwise, only try it."""
    report = desk.decide_many(
        InboxFilter(**body.filter.model_dump()),
        body.signal,
        dry_run=body.dry_run,
        limit=body.limit,
    )
    return ManyAnswer(
        dry_run=report.dry_run,
        done=report.done,
        refused=report.refused,
        more=report.more,
        jobs=[ManyLine.model_validate(item) for item in report.items],
    )


@router.post(
    "/jobs/{job_id}/messages",
    operation_id="tell",
    status_code=202,
    responses={
        202: answer("The model reads it before its next reply.", _HEARD),
        **errors(job=True, extra={409: ("conflict",)}),
    },
    openapi_extra=for_roles(Role.REVIEW),
)
def tell(
    job_id: JobId,
    body: Annotated[MessageRequest, Body(openapi_examples=MESSAGES)],
    desk: DeskHere,
    idempotency_key: IdempotencyKey = None,
) -> Heard:
    """Tell a job something."""
    key = read_key(idempotency_key)
    desk.message(job_id, body.text, by=body.by, note=body.note, message_id=key)
    return Heard(job_id=job_id, by=desk.caller.signs(body.by))


@router.post(
    "/jobs/{job_id}/pause",
    operation_id="pause",
    status_code=202,
    responses={
        202: answer("It pauses at its next step.", _HEARD),
        **errors(job=True, extra={409: ("conflict",)}),
    },
    openapi_extra=for_roles(Role.REVIEW, Role.OPERATE),
)
def pause_job(job_id: JobId, desk: DeskHere, body: WishRequest | None = None) -> Heard:
    """Pause a job, so that a person decides how it goes on."""
    wish = body or WishRequest()
    desk.pause(job_id, by=wish.by, note=wish.note)
    return Heard(job_id=job_id, by=desk.caller.signs(wish.by))
