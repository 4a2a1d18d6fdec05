"""A client whose jobs run in the test's own process."""

from __future__ import annotations

from typing import Any

import pytest

from api_client import Answer, JobStatus, Pause
from api_client.errors import InvalidInput, JobFailed, UnknownAgent
from worker.agent import Agent
from worker.models import ModelError, ScriptedModel, act
from worker.testing import InlineClient
from worker.tools import hand_to_human, tool


@tool(effects="safe")
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


sums = Agent(name="sums", goal="Add.", tools=[add, hand_to_human])
SCRIPT = [act("First the sum.", ("add", {"a": 2, "b": 3})), "It is 5."]
ASKING = [act("I ask.", ("hand_to_human", {"reason": "May I?"})), "Done."]


def test_a_job_has_ended_when_it_is_submitted() -> None:
    client = InlineClient([sums], model=SCRIPT)
    job_id = client.submit("sums", "2 and 3?")
    view = client.get(job_id)
    assert (view.status, view.published) == (JobStatus.SUCCEEDED, True)
    assert client.result(job_id) == "It is 5."
    assert client.messages(job_id)[3]["content"] == "5"
    assert "observation" in [event.kind for event in client.trace(job_id, follow=True)]


def test_a_pause_waits_for_the_tests_own_signal() -> None:
    client = InlineClient([sums], model=ASKING)
    job_id = client.submit("sums", "May you?")
    assert [view.job_id for view in client.inbox()] == [job_id]
    client.signal(job_id, {"kind": "answer", "value": "yes", "by": "anna"})
    assert client.result(job_id) == "Done."
    assert not client.inbox()


def test_or_for_an_answer_that_was_given_before() -> None:
    questions: list[str] = []

    def answer(pause: Pause) -> Answer:
        questions.append(pause.question)
        return Answer(value="yes")

    client = InlineClient([sums], model=ASKING, answers=answer)
    assert client.result(client.submit("sums", "May you?")) == "Done."
    assert questions == ["May I?"]


def test_on_demand_a_job_waits_to_be_run() -> None:
    client = InlineClient([sums], model=SCRIPT, on_demand=True)
    first, second = (client.submit("sums", "2 and 3?") for _ in range(2))
    assert client.get(first).status is JobStatus.QUEUED
    assert set(client.run_jobs()) == {first, second}
    assert client.result(second) == "It is 5."
    assert client.run_jobs() == []


def test_a_delayed_job_runs_when_it_is_asked_for() -> None:
    client = InlineClient([sums], model=SCRIPT)
    job_id = client.submit("sums", "2 and 3?", delay_s=86_400)
    assert client.get(job_id).status is JobStatus.WAITING
    assert client.run_jobs() == [job_id]
    assert client.result(job_id) == "It is 5."


def test_a_models_error_costs_no_time() -> None:
    error = ModelError("too many requests", "retry", retry_after=600, status=429)
    client = InlineClient([sums], model=[error, *SCRIPT])
    assert client.result(client.submit("sums", "2 and 3?")) == "It is 5."


def test_cancelling() -> None:
    client = InlineClient([sums], model=ASKING)
    job_id = client.submit("sums", "May you?")
    assert client.cancel(job_id, by="anna").status is JobStatus.CANCELLED
    assert client.wait(job_id).reason == "cancelled"
    assert client.get(job_id).published


def test_the_clients_own_refusals_are_the_real_ones() -> None:
    client = InlineClient([sums], model=SCRIPT)
    with pytest.raises(UnknownAgent, match="sums"):
        client.submit("sum", "2 and 3?")
    with pytest.raises(InvalidInput):
        client.submit("sums", None)
    key: dict[str, Any] = {"idempotency_key": "k"}
    assert client.submit("sums", "2?", **key) == client.submit("sums", "2?", **key)


def test_a_failed_job_fails_as_it_does_elsewhere() -> None:
    client = InlineClient([sums], model=[])
    with pytest.raises(JobFailed, match="asked for line 1"):
        client.result(client.submit("sums", "2 and 3?"))


def test_each_agent_is_there_with_its_own_model() -> None:
    other = Agent(name="other", goal="g", model=ScriptedModel(["from the other"]))
    client = InlineClient([sums, other])
    assert [info.name for info in client.agents()] == ["other", "sums"]
    assert client.result(client.submit("other", "?")) == "from the other"
