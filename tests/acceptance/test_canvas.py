"""Chains, chords, groups and callbacks around jobs that pause, and whose workers die."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import chain, chord, group
from celery.canvas import Signature

from api_client.errors import JobFailed
from tests.support.lab import Lab
from worker.texts import ENGLISH

HUMAN = ENGLISH.human_answer("yes")
TROUBLES = ("none", "pause", "sigkill", "sigkill-finished")


@pytest.fixture(params=TROUBLES)
def trouble(request: pytest.FixtureRequest, lab: Lab) -> Iterator[str]:
    """What befalls the job ``troubled``; its worker is started again when it dies."""
    if request.param == "sigkill":
        lab.crash("troubled", "after", "observation")
    if request.param == "sigkill-finished":
        lab.crash("troubled", "after", "finished")
    lab.worker("tasks@test", options=("--queues=tasks",))
    with lab.supervised("agents@test", options=("--queues=celery",)):
        yield request.param


def words(trouble: str) -> str:
    """The job's task."""
    return "put ask" if trouble == "pause" else "put"


def overcome(lab: Lab, trouble: str) -> str:
    """See the job through its trouble; returns its answer."""
    if trouble == "pause":
        lab.wait_status("troubled", "paused")
        lab.client.signal("troubled", {"kind": "answer", "value": "yes"})
    lab.wait_published("troubled")
    assert lab.has_died("troubled") == trouble.startswith("sigkill")
    return f"put 1; {HUMAN}" if trouble == "pause" else "put 1"


def job(lab: Lab, text: str, job_id: str | None = None, **options: Any) -> Signature[Any]:
    """A job as a part of a canvas."""
    if job_id:
        options["task_id"] = job_id
    return lab.plain.signature("agent.plan", args=[text], options=options, app=lab.plain)


def task(lab: Lab, name: str, **kwargs: Any) -> Signature[Any]:
    """An ordinary task as a part of a canvas."""
    return lab.plain.signature(
        f"lab.{name}", kwargs=kwargs, options={"queue": "tasks"}, app=lab.plain
    )


def test_chain(lab: Lab, trouble: str) -> None:
    """What stands behind the job gets its answer, once; another job may follow."""
    canvas = chain(
        job(lab, words(trouble), "troubled"), task(lab, "upper"), task(lab, "note", where="end")
    )
    result = canvas.apply_async()
    answer = overcome(lab, trouble)
    assert result.get(timeout=30) == answer.upper()
    assert [entry["value"] for entry in lab.ledger.entries("task")] == [answer.upper()]


def test_a_job_behind_a_job(lab: Lab, trouble: str) -> None:
    """The answer of the first is the input of the second."""
    canvas = chain(job(lab, words(trouble), "troubled"), job_of_input(lab))
    result = canvas.apply_async()
    answer = overcome(lab, trouble)
    job_id = str(result.id)
    lab.wait_view(job_id, lambda view: view.status.ended, "has ended")
    assert lab.client.messages(job_id)[1]["content"] == answer


def job_of_input(lab: Lab) -> Signature[Any]:
    """A job whose input is what the task before it returned."""
    return lab.plain.signature("agent.plan", app=lab.plain)


def test_chord(lab: Lab, trouble: str) -> None:
    """The body runs once, with every answer in its order."""
    header = [
        job(lab, "look", "first"),
        job(lab, words(trouble), "troubled"),
        task(lab, "upper", value="plain"),
    ]
    result = chord(header, app=lab.plain)(task(lab, "note", where="body"))
    answer = overcome(lab, trouble)
    assert result.get(timeout=30) == ["look 1", answer, "PLAIN"]
    bodies = [entry["value"] for entry in lab.ledger.entries("task")]
    assert bodies == [["look 1", answer, "PLAIN"]]


def test_group(lab: Lab, trouble: str) -> None:
    """``GroupResult.get()`` waits for the last."""
    canvas = group([job(lab, "look"), job(lab, words(trouble), "troubled")], app=lab.plain)
    result: Any = canvas.apply_async()
    answer = overcome(lab, trouble)
    assert result.get(timeout=30) == ["look 1", answer]


def test_link(lab: Lab, trouble: str) -> None:
    """Two callbacks, each once; no errback."""
    lab.send(
        words(trouble),
        "troubled",
        link=[task(lab, "note", where="one"), task(lab, "note", where="two")],
        link_error=task(lab, "failed", where="never"),
    )
    answer = overcome(lab, trouble)
    lab.ledger.wait("task", 2)
    told = sorted((entry["where"], entry["value"]) for entry in lab.ledger.entries("task"))
    assert told == [("one", answer), ("two", answer)]
    assert lab.ledger.entries("errback") == []


@pytest.mark.parametrize("when", ["never", "before", "after"])
def test_link_error(lab: Lab, when: str) -> None:
    """A job that fails runs its errback once, also if its worker dies around the failure."""
    lab.crash("failing", when, "failed")
    lab.worker("tasks@test", options=("--queues=tasks",))
    with lab.supervised("agents@test", options=("--queues=celery",)):
        result = lab.send(
            "put refuse",
            "failing",
            link=task(lab, "note", where="never"),
            link_error=task(lab, "failed", where="errback"),
        )
        with pytest.raises(JobFailed, match="the model does not exist"):
            result.get(timeout=30)
        lab.wait_published("failing")
        lab.ledger.wait("errback")
        assert [entry["value"] for entry in lab.ledger.entries("errback")] == ["failing"]
        assert lab.ledger.entries("task") == []
        assert lab.has_died("failing") == (when != "never")


def test_a_failed_job_fails_its_chain_and_its_chord(lab: Lab) -> None:
    """What stands behind it does not run, and nobody waits for it in vain."""
    lab.worker()
    behind = chain(job(lab, "refuse"), task(lab, "note", where="behind")).apply_async()
    with pytest.raises(JobFailed):
        behind.get(timeout=30)
    header = [job(lab, "look"), job(lab, "refuse")]
    body = chord(header, app=lab.plain)(task(lab, "note", where="body"))
    with pytest.raises(Exception, match="the model does not exist"):
        body.get(timeout=30)
    assert lab.ledger.entries("task") == []
