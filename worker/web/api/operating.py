"""Agents, workers, poison jobs, and forgetting what has ended."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from api_client.lists import JobFilter
from worker.web.api.strict import JobId, StrictRoute
from worker.web.callers import Role
from worker.web.documents import JOB, answer, errors, for_roles
from worker.web.identify import DeskHere, PartsHere
from worker.web.shapes import (
    Agents,
    Health,
    JobList,
    Released,
    Workers,
    WorkerShape,
)

router = APIRouter(tags=["operating"], route_class=StrictRoute)

_AGENT = {
    "name": "shop",
    "version": "3f2a90c1d4e5",
    "description": "You are the support agent of an online shop.",
    "queue": "celery",
    "seen": 1772356300000,
}
_WORKERS = {
    "workers": [
        {
            "name": "w1@host",
            "pool": "prefork",
            "slots": 4,
            "queues": ["celery"],
            "agents": ["shop 3f2a90c1d4e5"],
            "release": "0.1.0",
            "started": 1772356300000,
            "seen": 1772356364000,
            "jobs": [{"job_id": "j1", "agent": "shop", "steps": 2, "tries": 1}],
        }
    ],
    "counts": {"queued": 0, "running": 1, "paused": 4},
}
_RELEASED = {"job_id": "j2", "released_from": "j1", "url": "/v1/jobs/j2"}


@router.get(
    "/agents",
    operation_id="list_agents",
    responses={200: answer("By name.", {"agents": [_AGENT]}), **errors()},
    openapi_extra=for_roles(),
)
def list_agents(desk: DeskHere) -> Agents:
    """The agents that workers have announced."""
    return Agents(agents=list(desk.agents()))


@router.get(
    "/workers",
    operation_id="list_workers",
    responses={200: answer("By name.", _WORKERS), **errors()},
    openapi_extra=for_roles(Role.OPERATE),
)
def list_workers(desk: DeskHere) -> Workers:
    """The workers that are alive or hold jobs, and how many jobs are in each status."""
    desk.needs(Role.OPERATE)
    return Workers(workers=[WorkerShape.of(one) for one in desk.workers()], counts=desk.counts())


@router.get(
    "/quarantine",
    operation_id="list_quarantine",
    responses={
        200: answer("The longest there first.", {"jobs": [JOB], "next": "", "total": 1}),
        **errors(),
    },
    openapi_extra=for_roles(Role.OPERATE),
)
def list_quarantine(
    desk: DeskHere,
    agent: Annotated[str | None, Query(max_length=64)] = None,
    tenant: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=500, description="`next` of the page before.")] = "",
) -> JobList:
    """Poison jobs: their workers died again and again at the same step."""
    desk.needs(Role.OPERATE)
    wanted = JobFilter(agent=agent, tenant=tenant)
    return JobList.of(desk.jobs("poison", wanted, newest_first=False, limit=limit, cursor=cursor))


@router.post(
    "/quarantine/{job_id}/release",
    status_code=201,
    operation_id="release",
    responses={
        201: answer("It goes on under a new id.", _RELEASED, headers={"Location": "The new job."}),
        **errors(job=True, extra={409: ("conflict",)}),
    },
    openapi_extra=for_roles(Role.OPERATE),
)
def release(job_id: JobId, response: Response, desk: DeskHere) -> Released:
    """Let a poison job go on from its last checkpoint, under a new id."""
    spec = desk.release(job_id)
    url = f"/v1/jobs/{spec.job_id}"
    response.headers["Location"] = url
    return Released(job_id=spec.job_id, released_from=job_id, url=url)


@router.delete(
    "/jobs/{job_id}",
    status_code=204,
    operation_id="purge",
    responses={
        204: {"description": "Nothing is left of it."},
        **errors(job=True, extra={409: ("conflict",)}),
    },
    openapi_extra=for_roles(Role.OPERATE),
)
def purge(
    job_id: JobId,
    desk: DeskHere,
    force: Annotated[
        bool, Query(description="Also if its outcome has not reached the result backend.")
    ] = False,
) -> Response:
    """Forget a job that has ended: its record, its transcript, its trace."""
    desk.purge(job_id, force=force)
    return Response(status_code=204)


@router.get(
    "/health",
    operation_id="health",
    responses={
        200: answer("It runs and reaches its store.", {"status": "ok"}),
        **{status: said for status, said in errors().items() if status in (413, 431, 503)},
    },
)
def health(parts: PartsHere) -> Health:
    """Whether the server runs and reaches its store; needs no key."""
    parts.ping()
    return Health()
