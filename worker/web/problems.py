"""Errors as ``application/problem+json`` (RFC 9457).

Each kind of problem has a name, which is the last part of its ``type``. A client goes by that, not
by the words of ``detail``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from api_client.contract import AnsweredPause
from api_client.errors import (
    AlreadyAnswered,
    BacklogFull,
    Conflict,
    IdempotencyConflict,
    InvalidInput,
    JobNotFound,
    JobUnreadable,
    NotAllowed,
    NotPaused,
    SignalRefused,
    StepkeeperError,
    StorageFull,
    StoreUnavailable,
    UnknownAgent,
    WrongPause,
)

MEDIA_TYPE = "application/problem+json"
TYPES = "/problems/"
STORE_RETRY_S = 2
ROOM_RETRY_S = 60
TURN_RETRY_S = 5


class FieldError(BaseModel):
    """What is wrong with one field.

    Attributes:
        field: where it is: ``body.labels.0``, ``query.limit``; ``body`` for the whole.
    """

    field: str
    detail: str


class ProblemBody(BaseModel):
    """A problem as it is sent."""

    model_config = ConfigDict(
        title="Problem",
        json_schema_extra={
            "examples": [
                {
                    "type": "/problems/job-not-found",
                    "title": "No such job",
                    "status": 404,
                    "detail": "no job 'x': it was never accepted here, or its retention has passed",
                }
            ]
        },
    )

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] | None = Field(default=None, description="With status 422.")
    answered: AnsweredPause | None = Field(
        default=None, description="Who was first, with /problems/already-answered."
    )


@dataclass(eq=False)
class Problem(Exception):
    """A problem on its way to whoever asked.

    Attributes:
        name: the last part of its type.
        extra: further members of the body.
    """

    status: int
    name: str
    detail: str
    extra: dict[str, JsonValue] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The same words for every problem of this name."""
        return TITLES[self.name]

    def response(self) -> JSONResponse:
        """As an answer."""
        body: dict[str, Any] = {
            "type": TYPES + self.name,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.extra,
        }
        return JSONResponse(body, self.status, headers=self.headers, media_type=MEDIA_TYPE)


TITLES = {
    "bad-request": "The request cannot be read",
    "no-key": "An API key is needed",
    "not-allowed": "This key may not do that",
    "bad-form": "The form is not of this session",
    "not-found": "Nothing is here",
    "method-not-allowed": "That cannot be done here",
    "job-not-found": "No such job",
    "job-unreadable": "What is stored of the job cannot be read",
    "conflict": "The job is not in a state for this",
    "not-paused": "The job waits for nobody",
    "wrong-pause": "Another pause is open",
    "already-answered": "Somebody was first",
    "signal-refused": "This pause takes other answers",
    "too-large": "The request is too large",
    "head-too-large": "The head of the request is too large",
    "invalid": "Some of it cannot be accepted",
    "key-reused": "This idempotency key was used for something else",
    "too-many": "Too many requests",
    "error": "Something went wrong here",
    "unavailable": "The store cannot be reached",
    "backlog-full": "As many jobs wait as may",
    "storage-full": "There is no room for another job",
}
"""Every problem there is, by its name."""

_PLAIN: Sequence[tuple[type[StepkeeperError], int, str]] = (
    (JobNotFound, 404, "job-not-found"),
    (JobUnreadable, 409, "job-unreadable"),
    (NotPaused, 409, "not-paused"),
    (WrongPause, 409, "wrong-pause"),
    (AlreadyAnswered, 409, "already-answered"),
    (SignalRefused, 409, "signal-refused"),
    (NotAllowed, 403, "not-allowed"),
    (Conflict, 409, "conflict"),
)
"""The first that fits."""


def problem_of(error: StepkeeperError) -> Problem:
    """One of our errors as a problem."""
    text = str(error)
    match error:
        case StoreUnavailable():
            return Problem(503, "unavailable", text, headers={"Retry-After": str(STORE_RETRY_S)})
        case BacklogFull():
            return Problem(429, "backlog-full", text, headers={"Retry-After": str(TURN_RETRY_S)})
        case StorageFull():
            return Problem(429, "storage-full", text, headers={"Retry-After": str(ROOM_RETRY_S)})
        case IdempotencyConflict():  # its own words tell what the other request was
            return Problem(422, "key-reused", "the key came before with another body")
        case UnknownAgent():
            return invalid(text, ("body.agent", text))
        case InvalidInput():
            return invalid(text, ("body", text))
    for kind, status, name in _PLAIN:
        if isinstance(error, kind):
            return Problem(status, name, text)
    return Problem(500, "error", text)


def invalid(detail: str, *errors: tuple[str, str]) -> Problem:
    """Fields that cannot be accepted, each with what is wrong with it."""
    listed: list[JsonValue] = [{"field": place, "detail": text} for place, text in errors]
    return Problem(422, "invalid", detail, {"errors": listed})


def invalid_request(errors: Sequence[Mapping[str, Any]]) -> Problem:
    """What FastAPI found wrong with a request, without the values that were sent."""
    if any(error["type"] == "json_invalid" for error in errors):
        return Problem(400, "bad-request", "the body is not JSON")
    listed = [(".".join(map(str, error["loc"])), str(error["msg"])) for error in errors]
    return invalid("; ".join(f"{place}: {text}" for place, text in listed), *listed)


def already_answered(text: str, answered: AnsweredPause | None) -> Problem:
    """Somebody was first; says who, when and how."""
    who: dict[str, JsonValue] = {} if answered is None else {"answered": answered.model_dump()}
    return Problem(409, "already-answered", text, who)


_OF_STATUS = {
    400: "bad-request",
    401: "no-key",
    403: "not-allowed",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    431: "head-too-large",
}


def problem_of_status(
    status: int, detail: str = "", headers: Mapping[str, str] | None = None
) -> Problem:
    """A plain HTTP error as a problem."""
    name = _OF_STATUS.get(status, "bad-request" if status < 500 else "error")
    return Problem(status, name, detail or HTTPStatus(status).phrase, headers=dict(headers or {}))
