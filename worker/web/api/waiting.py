"""Long polls: waiting for a job without a thread for each who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

from fastapi import Query
from starlette.concurrency import run_in_threadpool

from api_client.contract import JobStatus, JobView
from worker.web.desk import Desk
from worker.web.parts import Parts

WaitSeconds = Annotated[
    float,
    Query(
        ge=0,
        le=600,
        description="Seconds to wait for it; the server may answer sooner.",
        examples=[30],
    ),
]


def rests(view: JobView) -> bool:
    """Nothing more happens by itself: the job has ended, or needs a person."""
    return view.status.ended or view.status is JobStatus.PAUSED


async def wait_for(
    parts: Parts, desk: Desk, job_id: str, until: Callable[[JobView], bool], wait_s: float
) -> JobView:
    """Where a job stands as soon as ``until`` holds, or when the time is over.

    Raises:
        JobNotFound, StoreUnavailable
    """
    view = await run_in_threadpool(desk.job, job_id)
    if until(view) or wait_s <= 0:
        return view
    now = asyncio.get_running_loop().time
    deadline = now() + min(wait_s, parts.settings.max_wait_s)
    async with parts.tail.watch(parts.trace_key(job_id)) as watch:
        while True:
            view = await run_in_threadpool(desk.job, job_id)
            left = deadline - now()
            if until(view) or left <= 0 or watch.closed:
                return view
            await watch.changed(left)
