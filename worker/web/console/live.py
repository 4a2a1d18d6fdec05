""" "Look again", as server-sent events: pages fetch themselves anew, and swap what has changed."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from api_client.errors import StepkeeperError
from api_client.live import LiveRecord
from worker.rendering.texts import clean
from worker.web.api.streams import EVENT_STREAM, PING_S, sent_event
from worker.web.console.visitors import Visitor, VisitorHere

router = APIRouter(include_in_schema=False)

LOOK = "event: look\ndata: \n\n"


@router.get("/live/jobs/{job_id}")
async def of_job(visitor: VisitorHere, job_id: str) -> Response:
    """When something has happened to one job, and what its model says as it comes."""
    view = await run_in_threadpool(visitor.desk.job, job_id)
    return _response(_Words(visitor, job_id, view.steps).pieces())


@router.get("/live/lists")
async def of_lists(visitor: VisitorHere) -> Response:
    """When something has happened to any job."""
    return _response(_looks(visitor))


def _response(pieces: AsyncIterator[str]) -> Response:
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(pieces, media_type=EVENT_STREAM, headers=headers)


async def _looks(visitor: Visitor) -> AsyncIterator[str]:
    """Says nothing of what has happened: the page decides what its visitor may see."""
    try:
        async with visitor.parts.tail.watch(*visitor.parts.event_keys) as watch:
            yield LOOK
            while not watch.closed and await _still_welcome(visitor):
                yield LOOK if await watch.changed(PING_S) else ": still here\n\n"
    except StepkeeperError as error:
        yield f": {' '.join(str(error).split())}\n\n"


class _Words:
    """The stream of one job's page.

    Args:
        steps: replies that the page may show already; what was said of them is left out.
    """

    def __init__(self, visitor: Visitor, job_id: str, steps: int) -> None:
        self._visitor = visitor
        self._job_id = job_id
        self._steps = steps
        self._traced = "0"
        self._said = "0"

    async def pieces(self) -> AsyncIterator[str]:
        """The stream as text; an error of the store ends it, and the page comes again."""
        parts = self._visitor.parts
        keys = (parts.trace_key(self._job_id), parts.live_key(self._job_id))
        try:
            async with parts.tail.watch(*keys) as watch:
                yield LOOK
                await run_in_threadpool(self._news)
                while not watch.closed and await _still_welcome(self._visitor):
                    for piece in await run_in_threadpool(self._words):
                        yield piece
                    if await run_in_threadpool(self._news):
                        yield LOOK
                    elif not await watch.changed(PING_S):
                        yield ": still here\n\n"
        except StepkeeperError as error:
            yield f": {' '.join(str(error).split())}\n\n"

    def _news(self) -> bool:
        """Whether the trace has records that were not there before."""
        events = self._visitor.desk.events(self._job_id, self._traced)
        self._traced = events[-1].id if events else self._traced
        return bool(events)

    def _words(self) -> list[str]:
        """What the model has said since the last time."""
        records = self._visitor.desk.live(self._job_id, self._said)
        self._said = records[-1].id if records else self._said
        return [_word(record) for record in records if record.step > self._steps]


def _word(record: LiveRecord) -> str:
    """One piece of a reply, made visible like all that comes from outside."""
    data = {"step": record.step, "kind": record.kind, "text": clean(record.text)}
    return sent_event("words", {**data, "tool": clean(record.tool)} if record.tool else data)


async def _still_welcome(visitor: Visitor) -> bool:
    """A key that was revoked ends its streams as well."""
    key = visitor.caller.id
    return not key or await run_in_threadpool(visitor.parts.ring.get, key) is not None
