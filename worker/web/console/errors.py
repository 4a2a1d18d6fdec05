"""What a person sees when something cannot be shown."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from worker.web.console.templates import bare_page, here
from worker.web.problems import Problem

_SENTENCES = {
    "job-not-found": "error_job_not_found",
    "job-unreadable": "error_job_unreadable",
    "not-found": "error_not_found",
    "not-allowed": "error_not_allowed",
    "bad-form": "error_csrf",
    "unavailable": "error_unavailable",
    "too-many": "error_too_many",
}


def page(request: Request, problem: Problem) -> Response:
    """A problem as a page; nothing of its details, which may be about others."""
    sentence = _SENTENCES.get(problem.name, "error_other")
    response = bare_page(request, "error.html", code=problem.status, sentence=sentence)
    response.headers.update(problem.headers)
    return response


def login(request: Request) -> Response:
    """To the login; but who comes by a link on another site is shown the way in first.

    Browsers send the session's cookie with requests of our own pages only. The page that is shown
    asks for the same address once more, as a page of ours.
    """
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
        return bare_page(request, "arriving.html")
    wanted = here(request) if request.method == "GET" else ""
    return RedirectResponse(f"/login?next={quote(wanted)}" if wanted else "/login", 303)
