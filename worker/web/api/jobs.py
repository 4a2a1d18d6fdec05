"""Submitting jobs, and asking where they stand."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response

from api_client.contract import JobStatus
from api_client.lists import JobFilter
from worker.web.api.strict import IdempotencyKey, JobId, StrictRoute, read_key
from worker.web.api.waiting import WaitSeconds, rests, wait_for
from worker.web.callers import Role
from worker.web.documents import JOB, RESULT, SUBMIT, answer, errors, for_roles
from worker.web.identify import DeskHere, PartsHere
from worker.web.shapes import Job, JobList, Messages, Result, SubmitRequest, Submitted

router = APIRouter(tags=["jobs"], route_class=StrictRoute)

_SUBMITTED = {"job_id": JOB["job_id"], "url": f"/v1/jobs/{JOB['job_id']}"}
_LOCATION = {"Location": "The same as url."}
_TRANSCRIPT = {"job_id": JOB["job_id"], "start": 1, "messages": [{"role": "user", "content": "Hi"}]}


@router.post(
    "/jobs",
    status_code=201,
    operation_id="submit",
    responses={
        201: answer("The job is stored, and will be run.", _SUBMITTED, headers=_LOCATION),
        **errors(
            extra={
                409: ("conflict",),
                422: ("key-reused",),
                429: ("backlog-full", "storage-full"),
            }
        ),
    },
    openapi_extra=for_roles(Role.SUBMIT),
)
def submit(
    body: Annotated[SubmitRequest, Body(openapi_examples=SUBMIT)],
    response: Response,
    desk: DeskHere,
    idempotency_key: IdempotencyKey = None,
) -> Submitted:
    """Submit a job. When this answers, the job is stored and cannot be lost."""
    options = body.model_dump(exclude={"agent", "input"})
    job_id = desk.submit(
        body.agent, body.input, idempotency_key=read_key(idempotency_key), **options
    )
    url = f"/v1/jobs/{job_id}"
    response.headers["Location"] = url
    return Submitted(job_id=job_id, url=url)


@router.get(
    "/jobs",
    operation_id="list_jobs",
    responses={
        200: answer("The newest first.", {"jobs": [JOB], "next": "", "total": 1}),
        **errors(),
    },
    openapi_extra=for_roles(Role.REVIEW, Role.OPERATE),
)
def list_jobs(
    desk: DeskHere,
    status: Annotated[JobStatus, Query(description="Where they stand.")],
    agent: Annotated[str | None, Query(max_length=64)] = None,
    label: Annotated[str | None, Query(max_length=100)] = None,
    tenant: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    oldest_first: bool = False,
    cursor: Annotated[str, Query(max_length=500, description="`next` of the page before.")] = "",
) -> JobList:
    """The jobs in one status, by the time they came to it.

    A job that stays in the status while the pages are read is on exactly one of them.
    """
    desk.needs(Role.REVIEW, Role.OPERATE)
    wanted = JobFilter(agent=agent, label=label, tenant=tenant)
    return JobList.of(
        desk.jobs(status, wanted, newest_first=not oldest_first, limit=limit, cursor=cursor)
    )


@router.get(
    "/jobs/{job_id}",
    operation_id="get_job",
    responses={200: answer("Where it stands.", JOB), **errors(job=True)},
    openapi_extra=for_roles(),
)
async def get_job(job_id: JobId, desk: DeskHere, parts: PartsHere, wait: WaitSeconds = 0.0) -> Job:
    """Where a job stands; with `wait`, as soon as it has ended or needs a person."""
    return Job.of(await wait_for(parts, desk, job_id, rests, wait))


@router.get(
    "/jobs/{job_id}/result",
    operation_id="get_result",
    responses={
        200: answer("It has ended.", RESULT),
        202: {
            **answer("It has not ended.", {**RESULT, "status": "running", "outcome": None}),
            "model": Result,
        },
        **errors(job=True),
    },
    openapi_extra=for_roles(),
)
async def get_result(
    job_id: JobId, response: Response, desk: DeskHere, parts: PartsHere, wait: WaitSeconds = 0.0
) -> Result:
    """How a job ended; with `wait`, as soon as it has."""
    view = await wait_for(parts, desk, job_id, lambda view: view.status.ended, wait)
    response.status_code = 200 if view.status.ended else 202
    return Result(job_id=job_id, status=view.status, outcome=view.outcome)


@router.get(
    "/jobs/{job_id}/messages",
    operation_id="get_messages",
    responses={200: answer("The transcript.", _TRANSCRIPT), **errors(job=True)},
    openapi_extra=for_roles(),
)
def get_messages(
    job_id: JobId,
    desk: DeskHere,
    start: Annotated[int, Query(ge=0, le=10_000_000, description="Index of the first.")] = 0,
) -> Messages:
    """A job's transcript, as the model has seen it."""
    desk.job(job_id)
    return Messages(job_id=job_id, start=start, messages=desk.messages(job_id, start))
