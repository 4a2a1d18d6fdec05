"""When an outcome counts as published through Celery."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from api_client.contract import JobSpec, JobStatus, Outcome
from api_client.errors import JobFailed
from worker import Agent, ScriptedModel, install
from worker.ends import Ended
from worker.models.scripted import say
from worker.publish import publish
from worker.settings import Settings


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the jobs that the store has been told of."""
    ids: list[str] = []
    monkeypatch.setattr(
        "worker.service.Service.published", lambda _self, job_id, _agent: ids.append(job_id)
    )
    return ids


def return_from(outcome: Any, status: str) -> None:
    """What Celery calls when it is done with a job's last message."""
    app = Celery("x", broker="memory://", backend="cache+memory://", set_as_current=False)
    agent = Agent(name="a", goal="g", model=ScriptedModel([say("hello")]))
    install(app, agents=[agent], settings=Settings(redis_url="redis://127.0.0.1:1/0"))
    task: Any = app.tasks["agent.a"]
    task.after_return(status, outcome, "job-1", (), {}, None)


@pytest.mark.parametrize(
    ("outcome", "status"), [("hello", "SUCCESS"), (JobFailed("no", "refused"), "FAILURE")]
)
def test_a_result_that_is_stored_is_published(told: list[str], outcome: Any, status: str) -> None:
    return_from(outcome, status)
    assert told == ["job-1"]


def test_callbacks_that_the_broker_did_not_take_are_sent_later(told: list[str]) -> None:
    return_from(OperationalError("the broker is away"), "FAILURE")
    assert told == []


def test_without_a_result_backend_an_answer_is_published_all_the_same(told: list[str]) -> None:
    """Nobody can tell whether it was before: its callbacks are sent again."""
    app = Celery("x", broker="memory://", set_as_current=False)
    agent = Agent(name="a", goal="g", model=ScriptedModel([]))
    install(app, agents=[agent], settings=Settings(redis_url="redis://127.0.0.1:1/0"))
    spec = JobSpec(job_id="job-1", agent="a", input="x")
    again = Ended(spec, JobStatus.SUCCEEDED, Outcome(ok=True, value="42"), again=True)
    task: Any = app.tasks["agent.a"]
    assert publish(task, again) == "42"
