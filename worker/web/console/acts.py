"""What is done: logging in and out, deciding, telling, ending."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, TypedDict

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ValidationError
from starlette.responses import RedirectResponse

from api_client.contract import SIGNAL
from api_client.errors import Conflict, InvalidInput
from worker.web.console.decisions import read_decision, typed_values
from worker.web.console.forms import Problems
from worker.web.console.pages import Refusal, job_page
from worker.web.console.templates import bare_page
from worker.web.console.visitors import (
    SESSION_COOKIE,
    ActingHere,
    Session,
    Visitor,
    check_origin,
    posted,
    remember_language,
    safe_path,
    set_cookie,
    signer_of,
)
from worker.web.console.words import LANGUAGES
from worker.web.desk import Desk
from worker.web.identify import PartsHere, take
from worker.web.problems import Problem

router = APIRouter(include_in_schema=False)

FormHere = Annotated[dict[str, str], Depends(posted)]


class Said(TypedDict):
    """Who does something, and their note for the trace."""

    by: str
    note: str


def _go(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303)


# --- coming and going -----------------------------------------------------------------------


@router.get("/login")
def login_page(request: Request, next: str = "") -> Response:
    """The form for logging in."""
    return bare_page(request, "login.html", next=safe_path(next), wrong=False, name="")


@router.post("/login")
def login(request: Request, parts: PartsHere, form: FormHere) -> Response:
    """Exchange a key for a session."""
    check_origin(request)
    target, name = safe_path(form.get("next")), form.get("name", "")
    caller = parts.ring.check(form.get("key", "").strip())
    if caller is None:
        take(parts, f"ip:{request.client.host if request.client else 'unknown'}")
        return bare_page(request, "login.html", code=401, next=target, wrong=True, name=name)
    response = _go(target)
    session = Session.start(caller.id, name, parts.settings.session_hours)
    set_cookie(parts, response, SESSION_COOKIE, signer_of(parts).seal(session), None)
    return response


@router.post("/logout")
def logout(acting: ActingHere) -> Response:
    """End a session in this browser."""
    visitor, _ = acting
    response = _go("/login")
    set_cookie(visitor.parts, response, SESSION_COOKIE, "", 0)
    return response


@router.get("/language/{language}")
def choose_language(parts: PartsHere, language: str, next: str = "") -> Response:
    """Speak another language from now on."""
    response = _go(safe_path(next))
    for known in LANGUAGES:
        if known == language:
            remember_language(parts, response, known)
    return response


# --- deciding -------------------------------------------------------------------------------


@router.post("/jobs/{job_id}/signals/{kind}")
def decide(request: Request, acting: ActingHere, job_id: str, kind: str) -> Response:
    """Close a pause with what was typed; whatever is wrong is shown beside it."""
    visitor, form = acting
    view = visitor.desk.job(job_id)
    pause_id = form.get("pause", "")
    if view.pause is None or view.pause.id != pause_id:
        return _late(request, visitor, job_id, pause_id, kind)
    try:
        given = read_decision(view.pause, kind, form)
        signal = SIGNAL.validate_python({**given, "by": visitor.session.name})
        visitor.desk.decide(job_id, signal, pause_id=pause_id)
    except Problems as error:
        return _again(request, visitor, job_id, kind, form, error.found)
    except KeyError:
        return _again(request, visitor, job_id, kind, form, {}, Refusal(kind))
    except ValidationError as error:
        texts = [str(item["msg"]) for item in error.errors()]
        return _again(request, visitor, job_id, kind, form, {}, Refusal("; ".join(texts)))
    except Problem as error:
        if error.status == 409:
            return _late(request, visitor, job_id, pause_id, kind)
        return _again(request, visitor, job_id, kind, form, {}, Refusal(error.detail))
    except Conflict:
        return _late(request, visitor, job_id, pause_id, kind)
    except InvalidInput as error:
        return _again(request, visitor, job_id, kind, form, {}, Refusal(str(error)))
    return _go(f"/jobs/{job_id}?done={kind}")


def _again(
    request: Request,
    visitor: Visitor,
    job_id: str,
    kind: str,
    form: dict[str, str],
    problems: dict[str, tuple[str, dict[str, str]]],
    refusal: Refusal | None = None,
) -> Response:
    """The page with what was typed, and what is wrong with it."""
    return job_page(
        request,
        visitor,
        visitor.desk.job(job_id),
        status=422,
        tried=kind,
        typed=typed_values(form),
        problems=problems,
        refusal=refusal,
    )


def _late(request: Request, visitor: Visitor, job_id: str, pause_id: str, kind: str) -> Response:
    """Somebody was first, or the job has gone on: who it was, if that is known."""
    view = visitor.desk.job(job_id)
    answered = view.answered
    first = answered if answered is not None and answered.pause_id == pause_id else None
    refusal = Refusal(answered=first)
    return job_page(request, visitor, view, status=409, tried=kind, refusal=refusal)


# --- other acts -----------------------------------------------------------------------------


@router.post("/jobs/{job_id}/cancel")
def cancel(request: Request, acting: ActingHere, job_id: str) -> Response:
    """End a job without an answer."""
    return _act(
        request, acting, job_id, "cancel", lambda desk, said, _: desk.cancel(job_id, **said)
    )


@router.post("/jobs/{job_id}/message")
def message(request: Request, acting: ActingHere, job_id: str) -> Response:
    """Tell a job something; the model reads it before its next reply."""

    def act(desk: Desk, said: Said, form: Mapping[str, str]) -> None:
        text = form.get("text", "").replace("\r\n", "\n")
        desk.message(job_id, text, message_id=form.get("once") or None, **said)

    return _act(request, acting, job_id, "message", act)


@router.post("/jobs/{job_id}/pause")
def pause(request: Request, acting: ActingHere, job_id: str) -> Response:
    """Pause a job at its next step."""
    return _act(request, acting, job_id, "pause", lambda desk, said, _: desk.pause(job_id, **said))


@router.post("/quarantine/{job_id}/release")
def release(acting: ActingHere, job_id: str) -> Response:
    """Let a poison job go on under a new id."""
    visitor, _ = acting
    return _go(f"/jobs/{visitor.desk.release(job_id).job_id}")


def _act(
    request: Request,
    acting: tuple[Visitor, dict[str, str]],
    job_id: str,
    kind: str,
    act: Callable[[Desk, Said, Mapping[str, str]], object],
) -> Response:
    """Do something to a job; what is refused is said on its page.

    Args:
        act: is given who does it and their note, and what stands in the form.
    """
    visitor, form = acting
    said: Said = {"by": visitor.session.name, "note": form.get("note", "")}
    try:
        act(visitor.desk, said, form)
    except (Conflict, InvalidInput) as error:
        refusal = Refusal(str(error))
        view = visitor.desk.job(job_id)
        return job_page(request, visitor, view, status=409, tried=kind, refusal=refusal)
    return _go(f"/jobs/{job_id}?done={kind}")
