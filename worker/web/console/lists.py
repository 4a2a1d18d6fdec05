"""What is shown of many jobs: the inbox, the lists, the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from api_client.contract import JobView, PauseKind
from api_client.lists import list_name
from worker.web.callers import Role
from worker.web.console.filters import AGES, LISTS, ORDERS, InboxChoiceHere, ListChoiceHere
from worker.web.console.templates import page
from worker.web.console.visitors import Visitor, VisitorHere

router = APIRouter(include_in_schema=False)

PAGE = 25


@router.get("/inbox")
def inbox(request: Request, visitor: VisitorHere, chosen: InboxChoiceHere) -> Response:
    """Jobs that wait for a person."""
    visitor.desk.needs(Role.REVIEW, Role.OPERATE)
    found = visitor.desk.inbox(
        chosen.wanted(), order=chosen.sorted_by, limit=PAGE, cursor=chosen.cursor
    )
    return page(
        request,
        visitor,
        "inbox.html",
        found=found,
        chosen=chosen,
        orders=ORDERS,
        **choices(visitor, found.items),
    )


def choices(visitor: Visitor, views: Sequence[JobView] = ()) -> dict[str, Any]:
    """What one may choose from in a form of filters.

    Labels are the visitor's own, and those of the jobs that are shown.
    """
    seen = {label for view in views if view.pause for label in view.pause.labels}
    return {
        "agents": [info.name for info in visitor.desk.agents()],
        "labels": sorted(seen | visitor.caller.labels),
        "kinds": tuple(PauseKind),
        "ages": AGES,
    }


@router.get("/jobs")
def jobs(request: Request, visitor: VisitorHere, chosen: ListChoiceHere) -> Response:
    """Jobs in one status, the newest first."""
    visitor.desk.needs(Role.REVIEW, Role.OPERATE)
    found = visitor.desk.jobs(
        list_name(chosen.status),
        chosen.wanted(),
        newest_first=chosen.newest_first,
        limit=PAGE,
        cursor=chosen.cursor,
    )
    return page(
        request,
        visitor,
        "jobs.html",
        status=chosen.status,
        found=found,
        chosen=chosen,
        lists=LISTS,
        **choices(visitor, found.items),
    )


@router.get("/workers")
def workers(request: Request, visitor: VisitorHere) -> Response:
    """The workers, what they hold, and the agents that they have announced."""
    visitor.desk.needs(Role.OPERATE)
    return page(
        request,
        visitor,
        "workers.html",
        workers=visitor.desk.workers(),
        agents=visitor.desk.agents(),
        counts=visitor.desk.counts(),
    )
