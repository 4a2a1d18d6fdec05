"""What is shown: the inbox, lists, one job, the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from api_client.contract import AnsweredPause, Event, JobStatus, JobView, PauseKind
from api_client.inbox import InboxFilter, Order
from worker.web.callers import Role
from worker.web.console.budgets import bars
from worker.web.console.decisions import forms_of
from worker.web.console.story import Teller
from worker.web.console.templates import page
from worker.web.console.timeline import draw, segments
from worker.web.console.visitors import Visitor, VisitorHere
from worker.web.desk import by_node
from worker.web.keys import now_ms
from worker.web.problems import Problem

router = APIRouter(include_in_schema=False)

PAGE = 25
LISTED = 100
AGES = ("3600", "86400", "604800")
ORDERS: tuple[Order, ...] = ("oldest", "newest", "deadline")
LISTS = ("running", "waiting", "queued", "failed", "poison", "succeeded", "cancelled")
STEPS_SHOWN = 40
"""The latest entries of a long job; the others are folded."""

MAX_EVENTS = 20_000


@router.get("/")
def root() -> Response:
    """The inbox is where people begin."""
    return RedirectResponse("/inbox", 303)


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

    def address(self, cursor: str = "") -> str:
        """The address of a page of it."""
        given = {name: getattr(self, name) for name in ("agent", "label", "kind", "age")}
        order = "" if self.order == "oldest" else self.order
        fields = {**given, "order": order, "cursor": cursor}
        query = urlencode({name: value for name, value in fields.items() if value})
        return f"/inbox?{query}" if query else "/inbox"


@router.get("/inbox")
def inbox(
    request: Request,
    visitor: VisitorHere,
    agent: Annotated[str, Query(max_length=64)] = "",
    label: Annotated[str, Query(max_length=100)] = "",
    kind: str = "",
    age: str = "",
    order: str = "oldest",
    cursor: Annotated[str, Query(max_length=500)] = "",
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
        agents=[info.name for info in visitor.desk.agents()],
        labels=_labels(visitor, found.items),
        kinds=tuple(PauseKind),
        ages=AGES,
        orders=ORDERS,
    )


def _labels(visitor: Visitor, views: tuple[JobView, ...]) -> list[str]:
    """Labels to choose from: the visitor's own, and those on this page."""
    seen = {label for view in views if view.pause for label in view.pause.labels}
    return sorted(seen | visitor.caller.labels)


@router.get("/jobs")
def jobs(request: Request, visitor: VisitorHere, status: str = "running") -> Response:
    """Jobs in one status, the newest first."""
    visitor.desk.needs(Role.REVIEW, Role.OPERATE)
    if status not in LISTS:
        raise Problem(404, "not-found", "there is no such list")
    if status == "poison":
        views = visitor.desk.quarantined(LISTED)
    else:
        views = visitor.desk.jobs(JobStatus(status), LISTED)
    return page(request, visitor, "jobs.html", status=status, views=views)


@router.get("/workers")
def workers(request: Request, visitor: VisitorHere) -> Response:
    """The workers that hold jobs, and the agents that they have announced."""
    visitor.desk.needs(Role.OPERATE)
    return page(
        request,
        visitor,
        "workers.html",
        held=by_node(visitor.desk.jobs(JobStatus.RUNNING, 500)),
        agents=visitor.desk.agents(),
        counts=visitor.desk.counts(),
    )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something was not accepted: in which words, or who was first."""

    text: str = ""
    answered: AnsweredPause | None = None


@router.get("/jobs/{job_id}")
def job(request: Request, visitor: VisitorHere, job_id: str, done: str = "") -> Response:
    """One job: what it waits for, what happened, what it has used."""
    return job_page(request, visitor, visitor.desk.job(job_id), done=done)


def job_page(
    request: Request,
    visitor: Visitor,
    view: JobView,
    *,
    status: int = 200,
    done: str = "",
    tried: str = "",
    typed: Mapping[str, str] | None = None,
    problems: Mapping[str, tuple[str, dict[str, str]]] | None = None,
    refusal: Refusal | None = None,
) -> Response:
    """A job's page, also after something that was not accepted.

    Args:
        tried: the kind of signal that was sent.
        typed: what stood in its form.
        problems: what is wrong with it, by field.
    """
    events = _events(visitor, view.job_id)
    entries = Teller(lambda start: visitor.desk.messages(view.job_id, start)).tell(events)
    limits = {info.name: info.limits for info in visitor.desk.agents()}
    cut = max(0, len(entries) - STEPS_SHOWN)
    return page(
        request,
        visitor,
        "job.html",
        code=status,
        view=view,
        earlier=entries[:cut],
        entries=entries[cut:],
        forms=_forms(visitor, view),
        mine=visitor.caller.answers(view),
        may=_abilities(visitor, view),
        bars=bars(view, limits.get(view.spec.agent, {})),
        picture=draw(segments(events, now_ms() if not view.status.ended else events_end(events))),
        done=done,
        tried=tried,
        typed=typed or {},
        problems=problems or {},
        refusal=refusal,
    )


def _events(visitor: Visitor, job_id: str) -> list[Event]:
    """The whole trace, within reason."""
    found: list[Event] = []
    while len(found) < MAX_EVENTS:
        more = visitor.desk.events(job_id, found[-1].id if found else "0")
        found += more
        if len(more) < 1000:
            break
    return found


def events_end(events: list[Event]) -> int:
    """When the last thing happened, in milliseconds since the epoch."""
    return events[-1].at if events else now_ms()


def _forms(visitor: Visitor, view: JobView) -> list[Any]:
    """The forms that the visitor may fill in."""
    allowed = visitor.caller.has(Role.REVIEW) and visitor.caller.answers(view)
    return forms_of(view.pause) if view.pause is not None and allowed else []


def _abilities(visitor: Visitor, view: JobView) -> dict[str, bool]:
    """What the visitor may do to a job besides deciding its pause."""
    lives = not view.status.ended
    free = lives and view.status is not JobStatus.PAUSED
    review = visitor.caller.has(Role.REVIEW)
    return {
        "review": review,
        "cancel": free and visitor.caller.has(Role.SUBMIT, Role.OPERATE),
        "message": lives and review,
        "pause": free and review and view.pause_wanted is None,
        "release": visitor.caller.has(Role.OPERATE)
        and view.outcome is not None
        and view.outcome.reason == "poison",
    }
