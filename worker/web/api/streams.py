"""A job's trace as server-sent events, from any offset."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from api_client.contract import Event
from api_client.errors import StepkeeperError
from api_client.records import check_offset
from worker.rendering import trace_records
from worker.web.api.strict import JobId, StrictRoute
from worker.web.desk import Desk
from worker.web.documents import EVENT, EVENT_SCHEMA, errors, for_roles
from worker.web.identify import DeskHere, PartsHere
from worker.web.parts import Parts

router = APIRouter(tags=["jobs"], route_class=StrictRoute)

EVENT_STREAM = "text/event-stream"
PING_S = 15.0
"""After so much silence a comment is sent, and the key is looked at again."""

_EXAMPLE = {EVENT_STREAM: {"schema": EVENT_SCHEMA, "example": EVENT}}


@router.get(
    "/jobs/{job_id}/events",
    operation_id="follow_job",
    response_class=StreamingResponse,
    responses={
        200: {"description": "Records as they come.", "content": _EXAMPLE},
        204: {"description": "The job has ended, and nothing is behind `Last-Event-ID`."},
        **errors(job=True),
    },
    openapi_extra=for_roles(),
)
async def follow_job(
    job_id: JobId,
    desk: DeskHere,
    parts: PartsHere,
    after: Annotated[str, Query(description="Id of the record behind which to begin.")] = "0",
    follow: Annotated[bool, Query(description="Go on until the job has ended.")] = True,
    last_event_id: Annotated[
        str | None, Header(description="In place of `after`, when a client comes again.")
    ] = None,
) -> Response:
    """A job's trace as server-sent events. Each is JSON; its `id` is the offset to go on from.

    Ends with an event `end`, when the job has ended.
    """
    offset = after if last_event_id is None else last_event_id
    check_offset(offset)
    view = await run_in_threadpool(desk.job, job_id)
    comes_again = last_event_id is not None and view.status.ended
    if comes_again and not await run_in_threadpool(desk.events, job_id, offset, 1):
        return Response(status_code=204)
    stream = _Trace(parts, desk, job_id, offset, follow).pieces()
    return StreamingResponse(stream, media_type=EVENT_STREAM, headers={"X-Accel-Buffering": "no"})


class _Trace:
    """One stream."""

    def __init__(self, parts: Parts, desk: Desk, job_id: str, after: str, follow: bool) -> None:
        self._parts = parts
        self._desk = desk
        self._job_id = job_id
        self._after = after
        self._follow = follow
        self._taken: deque[Event] = deque()
        # Asked for exactly as many records as there are events in the queue, so it never runs dry,
        # and reads each message of the transcript once.
        self._records = trace_records(parts.store, job_id, iter(self._taken.popleft, None))

    async def pieces(self) -> AsyncIterator[str]:
        """The stream as text; an error of the store ends it, and the client comes again."""
        try:
            async with self._parts.tail.watch(self._parts.trace_key(self._job_id)) as watch:
                while True:
                    ended, records = await run_in_threadpool(self._read)
                    for record in records:
                        yield sent_event(record["kind"], record, record["id"])
                    if not records and (ended or not self._follow):
                        yield sent_event("end", {"job_id": self._job_id})
                        return
                    if watch.closed or (not records and not await self._still_allowed()):
                        return
                    if not records and not await watch.changed(PING_S):
                        yield ": still here\n\n"
        except StepkeeperError as error:
            yield f": {' '.join(str(error).split())}\n\n"

    def _read(self) -> tuple[bool, list[dict[str, Any]]]:
        """Whether the job had ended before, and the records that are new."""
        ended = self._desk.job(self._job_id).status.ended
        events = self._desk.events(self._job_id, self._after, 200)
        self._taken.extend(events)
        if events:
            self._after = events[-1].id
        return ended, [next(self._records) for _ in events]

    async def _still_allowed(self) -> bool:
        """A key that was revoked ends its streams as well."""
        key_id = self._desk.caller.id
        return not key_id or await run_in_threadpool(self._parts.ring.get, key_id) is not None


def sent_event(kind: str, data: Any, event_id: str = "") -> str:
    """One server-sent event; the data is JSON on one line."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {kind}\ndata: {text}\n\n"
