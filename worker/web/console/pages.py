"""What is shown of one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from api_client.contract import AnsweredPause, Event, JobStatus, JobView
from api_client.errors import JobUnreadable
from worker.web.callers import Role
from worker.web.console.budgets import bars
from worker.web.console.decisions import forms_of
from worker.web.console.story import Entry, Teller
from worker.web.console.templates import page
from worker.web.console.timeline import draw, segments
from worker.web.console.visitors import Visitor, VisitorHere
from worker.web.keys import now_ms

router = APIRouter(include_in_schema=False)

STEPS_SHOWN = 40
"""The latest entries of a long job; the others are folded."""

MAX_EVENTS = 20_000


@router.get("/")
def root() -> Response:
    """The inbox is where people begin."""
    return RedirectResponse("/inbox", 303)


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
    entries, broken = _story(visitor, view.job_id, events)
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
        broken=broken,
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


def _story(visitor: Visitor, job_id: str, events: list[Event]) -> tuple[list[Entry], str]:
    """The trace as a conversation, and why a part of it cannot be read."""
    try:
        return Teller(lambda start: visitor.desk.messages(job_id, start)).tell(events), ""
    except JobUnreadable as error:
        return [], str(error)


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
