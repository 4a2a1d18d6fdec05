"""Who may see what, errors as problems, idempotency keys, guards: without a network."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api_client import errors
from api_client.contract import JobSpec, JobStatus, JobView, Pause, PauseKind
from worker.web.api.strict import read_key
from worker.web.callers import LOCAL, Caller, Role
from worker.web.guards import Guard
from worker.web.problems import TITLES, Problem, problem_of, problem_of_status


def view(labels: tuple[str, ...] = (), tenant: str = "", paused: bool = False) -> JobView:
    spec = JobSpec(job_id="j", agent="shop", input="x", labels=labels, tenant=tenant)
    asked = {"id": "p1", "kind": PauseKind.OPERATOR, "question": "?", "accepts": ("retry",)}
    pause = Pause.model_validate({**asked, "labels": labels}) if paused else None
    return JobView(spec=spec, status=JobStatus.QUEUED, created=0, pause=pause)


def caller(labels: tuple[str, ...] = (), tenant: str = "", name: str = "desk") -> Caller:
    return Caller("k1", name, frozenset({Role.REVIEW}), frozenset(labels), tenant)


@pytest.mark.parametrize(
    ("key", "job", "seen"),
    [
        ((), (), True),
        ((), ("a",), True),
        (("a",), (), True),
        (("a",), ("a", "b"), True),
        (("a", "b"), ("b",), True),
        (("a",), ("b",), False),
    ],
)
@pytest.mark.parametrize("paused", [True, False])
def test_labels_decide_what_a_key_sees(
    key: tuple[str, ...], job: tuple[str, ...], seen: bool, paused: bool
) -> None:
    assert caller(key).sees(view(job, paused=paused)) is seen
    if paused:
        assert caller(key).answers(view(job, paused=True)) is seen


def test_a_pause_that_has_come_to_somebody_shows_its_job() -> None:
    """A job of one label, escalated to another."""
    escalated = view(("sales",), paused=True)
    assert escalated.pause is not None
    pause = escalated.pause.model_copy(update={"labels": ("leads",)})
    escalated = escalated.model_copy(update={"pause": pause})
    assert caller(("leads",)).sees(escalated)
    assert caller(("leads",)).answers(escalated)
    assert caller(("sales",)).sees(escalated)
    assert not caller(("sales",)).answers(escalated)
    assert not caller(("night",)).sees(escalated)


@pytest.mark.parametrize(
    ("key", "job", "seen"), [("", "n", True), ("n", "n", True), ("n", "s", False)]
)
def test_a_tenant_is_a_border(key: str, job: str, seen: bool) -> None:
    assert caller(tenant=key).sees(view(tenant=job)) is seen
    assert caller(tenant=key).answers(view(tenant=job)) is seen


@pytest.mark.parametrize(
    ("given", "signed"),
    [("", "desk"), ("desk", "desk"), ("anna", "anna (desk)"), ("x" * 500, "x" * 200)],
)
def test_a_key_signs_with_its_own_name(given: str, signed: str) -> None:
    assert caller().signs(given) == signed


def test_who_has_no_key_signs_as_told() -> None:
    assert LOCAL.signs("anna") == "anna"
    assert LOCAL.signs("") == "local"
    assert LOCAL.has(Role.OPERATE)


def every_error(kind: type[Exception]) -> list[type[Exception]]:
    return [kind, *(sub for child in kind.__subclasses__() for sub in every_error(child))]


@pytest.mark.parametrize(
    "kind", every_error(errors.StepkeeperError), ids=lambda kind: kind.__name__
)
def test_every_error_of_ours_is_a_problem(kind: type[errors.StepkeeperError]) -> None:
    problem = problem_of(kind("what is wrong"))
    assert problem.name in TITLES
    assert problem.detail
    known = not issubclass(kind, errors.JobEnded | errors.WaitTimeout)
    if kind.__module__ == "api_client.errors" and kind is not errors.StepkeeperError and known:
        assert problem.status < 500 or kind is errors.StoreUnavailable


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 415, 418, 431, 500, 502])
def test_every_status_is_a_problem(status: int) -> None:
    problem = problem_of_status(status)
    assert (problem.status, problem.detail != "") == (status, True)
    assert problem.title


@pytest.mark.parametrize(
    ("header", "key"),
    [
        (None, None),
        ('"a b"', "a b"),
        ("abc", "abc"),
        (' "x" ', "x"),
        ('"\\"\\\\"', '"\\'),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
    ],
)
def test_an_idempotency_key_is_read(header: str | None, key: str | None) -> None:
    assert read_key(header) == key


@pytest.mark.parametrize(
    "header", ["", '""', '"', '"a', "a b", "a;b", "a,b", "é", "x" * 256, '"\\n"']
)
def test_another_form_of_it_is_refused(header: str) -> None:
    with pytest.raises(Problem) as raised:
        read_key(header)
    assert raised.value.status == 400


def guarded(head: list[tuple[bytes, bytes]], pieces: list[bytes], **options: Any) -> dict[str, Any]:
    """What a guard lets through: status, headers, and how much the application read."""
    seen: dict[str, Any] = {"read": 0}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for _ in pieces:
            seen["read"] += len((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            seen["status"] = message["status"]
            seen["headers"] = dict(message["headers"])

    waiting = list(pieces)
    scope = {"type": "http", "raw_path": b"/", "query_string": b"", "headers": head}
    guard = Guard(app, **{"max_body": 100, "max_head": 100, **options})
    asyncio.run(guard(scope, receive, send))
    return seen


def test_a_guard_lets_small_requests_through() -> None:
    seen = guarded([(b"content-length", b"100")], [b"x" * 100])
    assert (seen["status"], seen["read"]) == (200, 100)
    assert b"strict-transport-security" not in seen["headers"]


def test_a_guard_reads_nothing_of_what_is_too_large() -> None:
    seen = guarded([(b"content-length", b"101")], [b"x"])
    assert (seen["status"], seen["read"]) == (413, 0)
    assert seen["headers"][b"x-frame-options"] == b"DENY"
    assert guarded([(b"x", b"y" * 100)], [b"x"])["status"] == 431


def test_a_guard_tells_browsers_to_come_by_https_where_it_is_served() -> None:
    assert b"strict-transport-security" in guarded([], [b""], https=True)["headers"]
