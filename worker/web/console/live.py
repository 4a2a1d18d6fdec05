""" "Look again", as server-sent events: pages fetch themselves anew, and swap what has changed."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from api_client.errors import StepkeeperError
from worker.web.api.streams import EVENT_STREAM, PING_S
from worker.web.console.visitors import Visitor, VisitorHere

router = APIRouter(include_in_schema=False)

LOOK = "event: look\ndata: \n\n"


@router.get("/live/jobs/{job_id}")
async def of_job(visitor: VisitorHere, job_id: str) -> Response:
    """When something has happened to one job."""
    await run_in_threadpool(visitor.desk.job, job_id)
    return _stream(visitor, [visitor.parts.trace_key(job_id)])


@router.get("/live/lists")
async def of_lists(visitor: VisitorHere) -> Response:
    """When something has happened to any job."""
    return _stream(visitor, visitor.parts.event_keys)


def _stream(visitor: Visitor, keys: list[str]) -> Response:
    return StreamingResponse(
        _looks(visitor, keys), media_type=EVENT_STREAM, headers={"X-Accel-Buffering": "no"}
    )


async def _looks(visitor: Visitor, keys: list[str]) -> AsyncIterator[str]:
    """Says nothing of what has happened: the page decides what its visitor may see."""
    try:
        async with visitor.parts.tail.watch(*keys) as watch:
            yield LOOK
            while not watch.closed and await _still_welcome(visitor):
                yield LOOK if await watch.changed(PING_S) else ": still here\n\n"
    except StepkeeperError as error:
        yield f": {' '.join(str(error).split())}\n\n"


async def _still_welcome(visitor: Visitor) -> bool:
    """A key that was revoked ends its streams as well."""
    key = visitor.caller.id
    return not key or await run_in_threadpool(visitor.parts.ring.get, key) is not None
