"""Jobs from a Celery app without a line of ours: results, states, canvas, signals, refusals."""

from __future__ import annotations

import json
import threading
import uuid
from typing import Any

import pytest
from celery import chain, chord, group
from celery.result import AsyncResult

from api_client.errors import JobFailed
from tests.support.lab import Lab
from tests.support.workers import eventually

ASKED = "Answer of a person: yes"


def answer(lab: Lab, job_id: str, value: str = "yes") -> None:
    """Answer the job's question by nothing but Celery."""
    lab.wait_status(job_id, "paused")
    result = lab.plain.send_task(
        "stepkeeper.signal", args=[job_id, {"kind": "answer", "value": value, "by": "anna"}]
    )
    assert result.get(timeout=30) == "accepted"


def agent(lab: Lab, words: str, **options: Any) -> Any:
    """A signature of the agent as any service writes it."""
    return lab.plain.signature("agent.plan", args=[words], **options)


def note(lab: Lab, where: str) -> Any:
    """A signature of an ordinary task that passes on what it is given."""
    return lab.plain.signature("lab.note", kwargs={"where": where})


def test_a_pause_shows_as_a_state_with_its_reason_and_the_answer_comes_late(lab: Lab) -> None:
    lab.worker()
    result = lab.send("ask")
    lab.wait_status(result.id, "paused")
    eventually(lambda: str(result.state) == "PAUSED", "Celery's state is PAUSED")
    assert result.info == {
        "reason": "hand_to_human",
        "question": "question 1",
        "pause_id": "p1",
    }
    assert not result.ready()
    answer(lab, result.id)
    assert result.get(timeout=30) == ASKED
    assert result.state == "SUCCESS"


def test_a_chain_goes_on_behind_a_pause(lab: Lab) -> None:
    lab.worker()
    job_id = str(uuid.uuid4())
    first = agent(lab, "ask").set(task_id=job_id)
    result = chain(first, lab.plain.signature("lab.upper"), note(lab, "end")).apply_async()
    answer(lab, job_id)
    assert result.get(timeout=30) == ASKED.upper()
    assert len(lab.ledger.entries("task")) == 1


def test_an_agent_in_the_middle_of_a_chain_takes_the_result_before_it(lab: Lab) -> None:
    lab.worker()
    steps = chain(
        lab.plain.signature("lab.note", args=["look put"]),
        lab.plain.signature("agent.plan"),
        lab.plain.signature("lab.upper"),
    )
    assert steps.apply_async().get(timeout=30) == "LOOK 1; PUT 2"


def test_a_chord_waits_for_the_paused_one_of_its_parts(lab: Lab) -> None:
    lab.worker()
    job_id = str(uuid.uuid4())
    parts = group(agent(lab, "look"), agent(lab, "ask").set(task_id=job_id))
    result = chord(parts, note(lab, "body")).apply_async()
    answer(lab, job_id)
    assert sorted(result.get(timeout=30)) == [ASKED, "look 1"]
    assert len(lab.ledger.entries("task")) == 1


def test_an_agent_is_the_body_of_a_chord(lab: Lab) -> None:
    lab.worker()
    parts = group(lab.plain.signature("lab.note", args=[word]) for word in ("look", "put"))
    body = lab.plain.signature("agent.plan").set(task_id=str(uuid.uuid4()))
    result = chord(parts, body).apply_async()
    result.get(timeout=30)
    # The results are a JSON value, which the agent reads as JSON.
    assert json.loads(lab.client.messages(result.id)[1]["content"]) == ["look", "put"]


def test_links_run_once_after_a_pause_and_errbacks_after_a_failure(lab: Lab) -> None:
    lab.worker()
    paused = lab.send("ask", link=note(lab, "linked"), link_error=note(lab, "never"))
    failed = lab.send(
        "refuse", link=note(lab, "never"), link_error=lab.plain.signature("lab.failed")
    )
    answer(lab, paused.id)
    assert paused.get(timeout=30) == ASKED
    with pytest.raises(JobFailed, match="model does not exist"):
        failed.get(timeout=30)
    lab.ledger.wait("errback", 1)
    lab.ledger.wait("task", 1)
    assert [entry["where"] for entry in lab.ledger.entries("task")] == ["linked"]
    assert [entry["value"] for entry in lab.ledger.entries("errback")] == [failed.id]


def test_a_chain_survives_a_sigkill_and_a_pause(lab: Lab) -> None:
    job_id = str(uuid.uuid4())
    with lab.supervised() as supervisor:
        lab.crash(job_id, "after", "reply")
        first = agent(lab, f"put ask @{job_id}").set(task_id=job_id)
        result = chain(first, lab.plain.signature("lab.upper"), note(lab, "end")).apply_async()
        eventually(lambda: lab.has_died(job_id), "the worker has died")
        supervisor.wait_ready(2)
        answer(lab, job_id)
        assert result.get(timeout=30) == f"PUT 1; {ASKED.upper()}"
        assert len(lab.ledger.entries("task")) == 1


def test_a_cancel_by_nothing_but_celery(lab: Lab) -> None:
    lab.worker()
    result = lab.send("ask")
    lab.wait_status(result.id, "paused")
    told = lab.plain.send_task(
        "stepkeeper.cancel", args=[result.id], kwargs={"by": "anna", "note": "sent twice"}
    )
    assert told.get(timeout=30) == "cancelled"
    eventually(lambda: str(result.state) == "REVOKED", "Celery's state is REVOKED")
    assert lab.view(result.id).outcome is not None
    assert "anna: sent twice" in lab.view(result.id).outcome.text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ([], {}, "the input is missing"),
        ([None], {}, "the input is missing"),
        (["a", "b"], {}, "takes one positional argument"),
        (["a"], {"colour": "red"}, "takes no argument 'colour'"),
        (["a"], {"metadata": "text"}, "metadata"),
        (["a"], {"labels": "text"}, "labels"),
    ],
)
def test_a_call_that_cannot_be_taken_fails_in_one_line_and_leaves_nothing(
    lab: Lab, args: list[Any], kwargs: dict[str, Any], words: str
) -> None:
    lab.worker()
    result: AsyncResult[Any] = lab.plain.send_task("agent.plan", args=args, kwargs=kwargs)
    with pytest.raises(Exception, match=words) as caught:
        result.get(timeout=30)
    assert "\n" not in str(caught.value)
    assert lab.redis.exists(f"{{sk:0}}:j:{result.id}") == 0


def test_a_signal_that_comes_second_is_told_who_was_first(lab: Lab) -> None:
    lab.worker()
    result = lab.send("ask look @held")
    with lab.shut("look-held-2"):
        answer(lab, result.id)
        second = lab.plain.send_task(
            "stepkeeper.signal",
            args=[result.id, {"kind": "answer", "value": "no", "by": "ben"}],
            kwargs={"pause_id": "p1"},
        )
        with pytest.raises(Exception, match="answered by anna"):
            second.get(timeout=30)
    assert result.get(timeout=30) == f"{ASKED}; look 2"


def test_e3_fifty_answers_at_once_one_of_which_counts(lab: Lab) -> None:
    lab.worker()
    job_id = lab.submit("ask put")
    lab.wait_status(job_id, "paused")
    together = threading.Barrier(50)
    told: list[str] = []

    def one(number: int) -> None:
        together.wait(30)
        try:
            lab.client.signal(
                job_id, {"kind": "answer", "value": str(number), "by": f"p{number}"}, pause_id="p1"
            )
        except Exception as error:  # noqa: BLE001 - the kind of refusal is looked at below
            told.append(type(error).__name__)
        else:
            told.append("accepted")

    threads = [threading.Thread(target=one, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["AlreadyAnswered"] * 49 + ["accepted"]
    assert lab.client.result(job_id, 30).endswith("; put 2")
    assert len(lab.ledger.entries("put")) == 1


@pytest.mark.parametrize(
    ("name", "args", "kind", "words"),
    [
        ("signal", ["nobody", {"kind": "retry"}], "JobNotFound", "no job 'nobody'"),
        ("signal", ["a b", {"kind": "retry"}], "JobNotFound", "not the form of a job id"),
        ("signal", ["nobody", {"kind": "shrug"}], "SignalRefused", "shrug"),
        ("signal", ["nobody", "yes"], "SignalRefused", "yes"),
        ("cancel", ["nobody"], "JobNotFound", "no job 'nobody'"),
    ],
)
def test_a_decision_that_cannot_be_taken_fails_in_one_line(
    lab: Lab, name: str, args: list[Any], kind: str, words: str
) -> None:
    """What is stored needs no class of ours to be read; the worker's log holds no traceback."""
    worker = lab.worker()
    result = lab.plain.send_task(f"stepkeeper.{name}", args=args)
    with pytest.raises(Exception, match=words):
        result.get(timeout=30)
    raw: Any = lab.redis.get(f"celery-task-meta-{result.id}")
    stored = json.loads(raw)["result"]
    assert stored["exc_type"] == kind
    assert len(stored["exc_message"]) == 1
    assert "\n" not in stored["exc_message"][0]
    worker.wait_line(f"[{result.id}]", 2)
    assert "Traceback" not in worker.log
