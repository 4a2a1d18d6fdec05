"""Options of a call.

What a caller asks for in ``apply_async`` or ``send_task`` holds for every message of the job. For
the first options one job goes through everything: a SIGKILL, a backoff, a pause, a lost message.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from celery import chain, chord
from celery.exceptions import TaskRevokedError

from tests.support.canvases import HUMAN
from tests.support.places import Place

GET_S = 30
LATER_S = 3.0
SOON_S = 2.0

WORDS = "put busy ask put"
RUNS = 4
"""Messages at least: the first, after the crash, after the backoff, after the answer."""

BOTH = ("agent", "by_name")
"""Ways to submit: with our package, and with nothing but Celery."""


@pytest.fixture(scope="module")
def odyssey(place: Place) -> list[list[dict[str, Any]]]:
    """With which options each message came: of a job by ``apply_async``, and by ``send_task``."""
    options: dict[str, Any] = {
        "queue": "second",
        "priority": 3,
        "headers": {"campaign": "autumn", "tries": 2},
        "shadow": "autumn campaign",
    }
    ids = [str(uuid.uuid4()) for _ in range(2)]
    for job_id, signature in zip(ids, (place.agent, place.by_name), strict=True):
        place.lab.hold(f"put-{job_id}-1")
        stamped = signature(f"{WORDS} @{job_id}").set(task_id=job_id, **options)
        stamped.stamp(customer="anna", stamped_headers=["customer"])
        stamped.apply_async()
    for job_id in ids:
        place.lab.wait_gate(f"put-{job_id}-1")
    place.kill()
    for job_id in ids:
        place.lab.open(f"put-{job_id}-1")
    for job_id in ids:
        place.answer(job_id, hinted=False)
    place.pass_time()
    for job_id in ids:
        assert place.lab.wait_published(job_id).status == "succeeded"
    return [place.lab.ledger.wait("run", RUNS, job=job_id) for job_id in ids]


def check_every_run(odyssey: list[list[dict[str, Any]]], check: Callable[..., bool]) -> None:
    """Every message of both jobs."""
    for runs in odyssey:
        assert len(runs) >= RUNS
        assert [run for run in runs if not check(run)] == []


@pytest.mark.feature("queue, in every message")
def test_queue(place: Place, odyssey: list[list[dict[str, Any]]]) -> None:
    """It wins over the route of the app."""
    check_every_run(odyssey, lambda run: run["queue"] == "second")


@pytest.mark.feature("priority, in every message")
def test_priority(place: Place, odyssey: list[list[dict[str, Any]]]) -> None:
    check_every_run(odyssey, lambda run: run["priority"] == 3)


@pytest.mark.feature("headers, in every message")
def test_headers(place: Place, odyssey: list[list[dict[str, Any]]]) -> None:
    wanted = {"campaign": "autumn", "tries": 2}
    check_every_run(odyssey, lambda run: wanted.items() <= run["headers"].items())


@pytest.mark.feature("stamps, in every message")
def test_stamps(place: Place, odyssey: list[list[dict[str, Any]]]) -> None:
    check_every_run(
        odyssey, lambda run: run["stamps"] in ({"customer": ["anna"]}, {"customer": "anna"})
    )


@pytest.mark.feature("shadow, in every message")
def test_shadow(place: Place, odyssey: list[list[dict[str, Any]]]) -> None:
    check_every_run(odyssey, lambda run: run["shadow"] == "autumn campaign")


@pytest.mark.feature("task_routes, in every message")
def test_task_routes(place: Place) -> None:
    """Without an option, the app's route holds, also after a pause."""
    for result in submit_both(place, "ask"):
        place.answer(result.id)
        place.lab.wait_published(result.id)
        runs = place.lab.ledger.wait("run", 2, job=result.id)
        assert {run["queue"] for run in runs} == {"agents"}


def submit_both(place: Place, words: str, **options: Any) -> list[Any]:
    """Two jobs, one for each way to submit."""
    return [getattr(place, way)(words).apply_async(**options) for way in BOTH]


def check_began_after(place: Place, result: Any, seconds: float, sent_s: float) -> None:
    """The job began when it might, once, and not in the store's view only."""
    assert result.get(timeout=GET_S) == "look 1"
    (model,) = place.lab.ledger.entries("model", tag=str(result.id), step=1)
    assert model["at"] >= sent_s + seconds - 0.05


@pytest.mark.feature("countdown, over a SIGKILL before it is over")
def test_countdown(place: Place) -> None:
    """Nobody holds it in memory: the worker that took the message up may die."""
    sent_s = time.time()
    results = []
    for way in BOTH:
        job_id = str(uuid.uuid4())
        signature = getattr(place, way)(f"look @{job_id}", task_id=job_id)
        results.append(signature.apply_async(countdown=LATER_S))
    for result in results:
        place.lab.wait_status(result.id, "waiting")
    place.kill()
    for result in results:
        check_began_after(place, result, LATER_S, sent_s)


@pytest.mark.feature("eta")
def test_eta(place: Place) -> None:
    """A time with a zone."""
    sent_s = time.time()
    eta = datetime.now(timezone(timedelta(hours=5))) + timedelta(seconds=1)
    for way in BOTH:
        job_id = str(uuid.uuid4())
        signature = getattr(place, way)(f"look @{job_id}", task_id=job_id)
        check_began_after(place, signature.apply_async(eta=eta), 1.0, sent_s)


@pytest.mark.feature("expires, begun in time and paused beyond it")
def test_begun_before_it_expires(place: Place) -> None:
    """Once begun it does not expire, whatever becomes of its messages."""
    results = submit_both(place, "ask", expires=SOON_S)
    for result in results:
        place.lab.wait_status(result.id, "paused")
    waiting = threading.Event()
    waiting.wait(SOON_S)
    for result in results:
        place.lab.hint(result.id)
        place.answer(result.id)
        assert result.get(timeout=GET_S) == HUMAN


@pytest.mark.feature("expires, not begun in time")
def test_expired(place: Place) -> None:
    """REVOKED, and the model has not been asked; also if its message was lost."""
    with place.losing_hints():
        lost = place.agent("look").apply_async(expires=0.2)
    late = place.agent("look").apply_async(expires=-1)
    results = [lost, late]
    if place.name.startswith("redis"):  # RabbitMQ throws away a message that has expired
        past = datetime(2026, 1, 1, tzinfo=UTC)
        results.append(place.by_name("look").apply_async(expires=past))
    for result in results:
        with pytest.raises(TaskRevokedError, match="expired"):
            result.get(timeout=GET_S)
        assert place.lab.wait_published(str(result.id)).status == "cancelled"
        assert place.lab.client.messages(str(result.id)) == []


@pytest.mark.feature("ignore_result, over a pause and a backoff")
def test_ignore_result(place: Place) -> None:
    """No state is stored, none that is not final either; links run all the same."""
    for number, way in enumerate(BOTH):
        signature = getattr(place, way)("busy ask")
        where = f"{place.name}-ignored-{number}-{uuid.uuid4()}"
        result = signature.apply_async(ignore_result=True, link=place.task("note", where=where))
        place.answer(result.id)
        place.lab.wait_published(result.id)
        assert place.noted(where) == [f"look 1; {HUMAN}"]
        assert str(place.lab.plain.AsyncResult(result.id).state) == "PENDING"


@pytest.mark.feature("ignore_result, cancelled while paused")
def test_ignore_result_of_a_cancelled_job(place: Place) -> None:
    for result in submit_both(place, "ask", ignore_result=True):
        place.lab.wait_status(result.id, "paused")
        place.lab.client.cancel(result.id)
        place.lab.wait_published(result.id)
        assert str(place.lab.plain.AsyncResult(result.id).state) == "PENDING"


@pytest.mark.feature("si, amid a chain")
def test_immutable(place: Place) -> None:
    """The result before it is left out."""
    for way in BOTH:
        job = getattr(place, way)("look").set(immutable=True)
        steps: Any = chain(place.task("note", "put", where="before"), job, place.task("upper"))
        assert steps.apply_async().get(timeout=GET_S) == "LOOK 1"


@pytest.mark.feature("a job that cannot be, amid a chain")
def test_a_call_that_cannot_be_taken(place: Place) -> None:
    """It fails itself, with words that help; the task before it keeps its own result."""
    for way in BOTH:
        before = place.task("note", "put", where="before")
        steps: Any = chain(before, getattr(place, way)("look"), place.task("upper"))
        result = steps.apply_async()
        with pytest.raises(Exception, match=r"takes one positional argument.*\.si\("):
            result.get(timeout=GET_S)
        assert result.parent.parent.get(timeout=GET_S) == "put"


@pytest.mark.feature("a job as the body of a chord")
def test_body(place: Place) -> None:
    for way in BOTH:
        header = [place.task("note", word, where="part") for word in ("look", "put")]
        body = getattr(place, way)(task_id=str(uuid.uuid4()))
        result = chord(header, app=place.app)(body)
        place.lab.wait_published(str(result.id))
        task = place.lab.client.messages(str(result.id))[1]["content"]
        assert json.loads(task) == ["look", "put"]


@pytest.mark.feature("root_id and parent_id, in every message")
def test_family(place: Place) -> None:
    """Of a job that another task has submitted."""
    result = place.app.send_task("lab.submit", args=["ask"], queue="tasks")
    job_id = str(result.get(timeout=GET_S))
    place.answer(job_id)
    place.lab.wait_published(job_id)
    for run in place.lab.ledger.wait("run", 2, job=job_id):
        assert (run["root"], run["parent"]) == (result.id, result.id)


@pytest.mark.feature("a job in the place of a task (Task.replace), over a pause")
def test_replace(place: Place) -> None:
    """It has the task's id, and its answer goes on through the task's chain."""
    task_id = str(uuid.uuid4())
    steps: Any = chain(place.task("replace", "ask").set(task_id=task_id), place.task("upper"))
    result = steps.apply_async()
    place.answer(task_id)
    assert result.get(timeout=GET_S) == HUMAN.upper()
    assert str(place.lab.plain.AsyncResult(task_id).get(timeout=GET_S)) == HUMAN


@pytest.mark.feature("beat, with a schedule of one second")
def test_beat(place: Place) -> None:
    """A real beat process; each of its jobs waits for a person, and beat for none of them."""
    tag = f"beat-{uuid.uuid4()}"
    entry: dict[str, Any] = {"task": "agent.plan", "schedule": 1.0, "args": [f"ask @{tag}"]}
    entry["options"] = {"expires": 30, "headers": {"campaign": tag}}
    with place.beat({"every second": entry}):
        place.lab.ledger.wait("model", 2, tag=tag)
    noted = place.lab.ledger.entries("run")
    runs = [run for run in noted if (run["headers"] or {}).get("campaign") == tag]
    ids = {run["job"] for run in runs}
    assert len(ids) >= 2
    for job_id in ids:
        place.answer(job_id)
        assert place.lab.wait_published(job_id).status == "succeeded"
