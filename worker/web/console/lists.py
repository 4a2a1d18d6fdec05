"""What is shown of many jobs: the inbox, the lists, the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from api_client.contract import JobView, PauseKind
from api_client.inbox import InboxFilter, Order
from api_client.lists import JobFilter, ListName, list_name
from worker.web.callers import Role
from worker.web.console.templates import page
from worker.web.console.visitors import Visitor, VisitorHere
from worker.web.problems import Problem

router = APIRouter(include_in_schema=False)

PAGE = 25
AGES = ("3600", "86400", "604800")
ORDERS: tuple[Order, ...] = ("oldest", "newest", "deadline")
LISTS = ("running", "waiting", "queued", "failed", "poison", "succeeded", "cancelled")

AgentField = Annotated[str, Query(max_length=64)]
LabelField = Annotated[str, Query(max_length=100)]
CursorField = Annotated[str, Query(max_length=500)]


def address(path: str, **fields: str) -> str:
    """An address with those of the fields that say something."""
    query = urlencode({name: value for name, value in fields.items() if value})
    return f"{path}?{query}" if query else path


@dataclass(frozen=True, slots=True)
class Filter:
    """What is chosen in the inbox; ``""``: everything."""

    agent: str = ""
    label: str = ""
    kind: str = ""
    age: str = ""
    order: Order = "oldest"
    cursor: str = ""

    def wanted(self) -> InboxFilter:
        """The same as the store wants it."""
        return InboxFilter(
            agent=self.agent or None,
            label=self.label or None,
            kind=PauseKind(self.kind) if self.kind in tuple(PauseKind) else None,
            older_than_s=float(self.age) if self.age in AGES else None,
        )

    @property
    def chosen(self) -> bool:
        """Whether anything is left out."""
        return bool(self.agent or self.label or self.kind or self.age)

    @property
    def fields(self) -> dict[str, str]:
        """What is chosen, by the names of the form's fields."""
        return {name: getattr(self, name) for name in ("agent", "label", "kind", "age")}

    def address(self, cursor: str = "") -> str:
        """The address of a page of it."""
        order = "" if self.order == "oldest" else self.order
        return address("/inbox", **self.fields, order=order, cursor=cursor)

    def bulk(self) -> str:
        """Where all that is chosen is decided at once."""
        return address("/bulk", **self.fields)


@router.get("/inbox")
def inbox(
    request: Request,
    visitor: VisitorHere,
    agent: AgentField = "",
    label: LabelField = "",
    kind: str = "",
    age: str = "",
    order: str = "oldest",
    cursor: CursorField = "",
) -> Response:
    """Jobs that wait for a person."""
    visitor.desk.needs(Role.REVIEW, Role.OPERATE)
    known: Order = next((one for one in ORDERS if one == order), "oldest")
    chosen = Filter(agent, label, kind, age, known, cursor)
    found = visitor.desk.inbox(chosen.wanted(), order=known, limit=PAGE, cursor=cursor)
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


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What is chosen in a list; ``""``: everything."""

    status: ListName
    agent: str = ""
    label: str = ""
    tenant: str = ""
    order: str = ""
    cursor: str = ""

    def wanted(self) -> JobFilter:
        """The same as the store wants it."""
        return JobFilter(
            agent=self.agent or None, label=self.label or None, tenant=self.tenant or None
        )

    @property
    def newest_first(self) -> bool:
        """The order; the quarantine is worked off, everything else is looked at."""
        return self.order != "oldest"

    @property
    def chosen(self) -> bool:
        """Whether anything is left out."""
        return bool(self.agent or self.label or self.tenant)

    def address(self, cursor: str = "") -> str:
        """The address of a page of it."""
        given = {name: getattr(self, name) for name in ("agent", "label", "tenant", "order")}
        return address("/jobs", status=str(self.status), **given, cursor=cursor)


@router.get("/jobs")
def jobs(
    request: Request,
    visitor: VisitorHere,
    status: str = "running",
    agent: AgentField = "",
    label: LabelField = "",
    tenant: LabelField = "",
    order: str = "",
    cursor: CursorField = "",
) -> Response:
    """Jobs in one status, the newest first."""
    visitor.desk.needs(Role.REVIEW, Role.OPERATE)
    if status not in LISTS:
        raise Problem(404, "not-found", "there is no such list")
    chosen = ListFilter(list_name(status), agent, label, tenant, order, cursor)
    found = visitor.desk.jobs(
        chosen.status,
        chosen.wanted(),
        newest_first=chosen.newest_first,
        limit=PAGE,
        cursor=cursor,
    )
    return page(
        request,
        visitor,
        "jobs.html",
        status=status,
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
