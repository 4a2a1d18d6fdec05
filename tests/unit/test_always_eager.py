"""``task_always_eager``: the whole job at once, in the calling program, without store and broker.

The app's Redis is one that nobody can reach: whatever asked it would fail.
"""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.result import EagerResult

from api_client.errors import InvalidInput, JobFailed
from worker import Agent, hand_to_human, install, tool
from worker.models import FunctionModel, ModelError
from worker.models.scripted import act, say
from worker.settings import Settings

NOWHERE = "redis://127.0.0.1:1/0"


@tool(effects="idempotent")
def count(text: str) -> int:
    """Count characters."""
    return len(text)


def reply(messages: list[dict[str, Any]]) -> Any:
    """Ask a person, fail, or count the task's characters."""
    task = str(messages[1]["content"])
    if messages[-1]["role"] == "tool":
        return say(f"{task}: {messages[-1]['content']}")
    if task == "ask":
        return act("I ask.", ("hand_to_human", {"reason": "May I?"}))
    if task == "fail":
        raise ModelError("the model does not exist", "fail", code="model_not_found")
    return act("I count.", ("count", {"text": task}))


@pytest.fixture
def app() -> Celery:
    """An app as tests of people's projects have it."""
    app = Celery("x", broker=NOWHERE, backend="cache+memory://", set_as_current=False)
    app.conf.update(task_always_eager=True, task_store_eager_result=True)
    agent = Agent(
        name="a", goal="g", tools=[count, hand_to_human], model=FunctionModel(reply), max_steps=5
    )
    install(app, agents=[agent], settings=Settings(redis_url=NOWHERE))
    return app


@pytest.fixture
def task(app: Celery) -> Any:
    """The agent's task."""
    return app.tasks["agent.a"]


@pytest.fixture
def upper(app: Celery) -> Any:
    """An ordinary task."""

    @app.task(name="upper")
    def upper(value: Any) -> str:
        return str(value).upper()

    return upper


def test_the_answer_is_there_when_the_call_returns(task: Any) -> None:
    result = task.apply_async(["four"], task_id="job-1")
    assert isinstance(result, EagerResult)
    assert (result.id, result.state, result.get()) == ("job-1", "SUCCESS", "four: 4")
    assert task.delay("four", tenant="t", labels=["l"], metadata={"x": 1}).get() == "four: 4"
    assert task("four") == "four: 4"
    assert task.s("four").apply().get() == "four: 4"


def test_canvas_runs_at_once(task: Any, upper: Any) -> None:
    assert chain(task.s("four"), upper.s()).delay().get() == "FOUR: 4"
    assert chain(upper.s("four"), task.s()).delay().get() == "FOUR: 4"
    assert group(task.s("a"), task.s("bc")).delay().get() == ["a: 1", "bc: 2"]
    assert chord([task.s("a"), upper.s("b")], upper.s()).delay().get() == "['A: 1', 'B']"


def test_callbacks_run_at_once(app: Celery, task: Any) -> None:
    told: list[Any] = []

    @app.task(name="note")
    def note(*values: Any) -> None:
        told.append(values)

    task.apply_async(["four"], link=note.s(), link_error=note.si("never"))
    assert told == [("four: 4",)]
    failed = task.apply_async(["fail"], link=note.si("never"))
    assert (failed.state, len(told)) == ("FAILURE", 1)
    with pytest.raises(JobFailed, match="the model does not exist"):
        failed.get()


def test_a_pause_is_a_failure_that_says_so(app: Celery, task: Any) -> None:
    """Nobody could answer it, and nothing is kept of the job."""
    result = task.delay("ask")
    assert result.state == "FAILURE"
    with pytest.raises(JobFailed, match=r"the job is paused: May I\?") as caught:
        result.get()
    assert caught.value.reason == "paused"
    app.conf.task_eager_propagates = True
    with pytest.raises(JobFailed, match="is paused"):
        task.delay("ask")


def test_the_result_is_stored_where_celery_stores_eager_results(app: Celery, task: Any) -> None:
    task.store_eager_result = True  # what task_store_eager_result sets, of the first app bound
    task.apply_async(["four"], task_id="job-2")
    stored = app.AsyncResult("job-2")
    assert (str(stored.state), stored.result) == ("SUCCESS", "four: 4")


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ([], {}, "the input is missing"),
        (["a", "b"], {}, "takes one positional argument"),
        (["a"], {"kwargs": {"colour": "red"}}, "takes no argument 'colour'"),
        (["a"], {"time_limit": 5}, "time_limit=5"),
        ([{"x": object()}], {}, "input"),
        ([float("nan")], {}, "NaN"),
    ],
)
def test_what_a_worker_would_refuse_is_refused(
    task: Any, args: list[Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        task.apply_async(args, **options)
