"""What a submission through Celery may ask for, and what is refused before anything is stored."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery

from api_client.errors import InvalidInput
from worker import Agent, ScriptedModel, install, run_inline, tool
from worker.celery_config import check_pool
from worker.models import FunctionModel
from worker.models.scripted import act, say
from worker.settings import Settings

NOWHERE = Settings(redis_url="redis://127.0.0.1:1/0")


@pytest.fixture
def task() -> Any:
    """The task of an agent, in an app whose store nobody can reach."""
    app = Celery("x", broker="memory://", backend="cache+memory://", set_as_current=False)
    agent = Agent(name="a", goal="g", model=ScriptedModel([say("hello")]))
    install(app, agents=[agent], settings=NOWHERE)
    return app.tasks["agent.a"]


@pytest.mark.parametrize(
    ("option", "value", "advice"),
    [
        ("expires", 60, "cancel it instead"),
        ("time_limit", 5, "max_active_s"),
        ("soft_time_limit", 5, "max_active_s"),
    ],
)
def test_d3_what_cannot_be_kept_on_every_pool_is_refused(
    task: Any, option: str, value: int, advice: str
) -> None:
    with pytest.raises(InvalidInput, match=f"{option}={value}.*{advice}"):
        task.apply_async(args=["x"], **{option: value})


@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_d3_a_pool_that_breaks_promises_is_refused(pool: str) -> None:
    class TaskPool:
        """Stands for Celery's class of that pool."""

    TaskPool.__module__ = f"celery.concurrency.{pool}"
    with pytest.raises(InvalidInput, match=f"pool '{pool}' is not supported"):
        check_pool(NOWHERE, TaskPool)


def test_d3_our_own_deadline_ends_a_tool_on_a_pool_of_threads() -> None:
    never = threading.Event()

    @tool(effects="safe", timeout=0.05)
    def slow() -> str:
        """Sleeps for a day."""
        never.wait(86_400)
        return "late"

    agent = Agent(name="a", goal="g", tools=[slow])
    run = run_inline(agent, "t", model=[act("go", ("slow", {})), say("done")])
    never.set()
    assert run.answer == "done"
    assert "no result within 0.05 seconds" in run.observations[0]


def test_active_time_is_a_limit_on_every_pool() -> None:
    pause = threading.Event()

    def model(messages: list[dict[str, Any]]) -> Any:
        pause.wait(0.03)
        step = sum(m["role"] == "assistant" for m in messages)
        return act("go", ("count", {"x": step}, f"c{step}"))

    @tool(effects="safe")
    def count(x: int) -> int:
        """Count."""
        return x

    limit = timedelta(milliseconds=100).total_seconds()
    agent = Agent(
        name="a",
        goal="g",
        tools=[count],
        model=FunctionModel(model),
        max_active_s=limit,
        max_steps=None,
        on_limit="stop",
    )
    run = run_inline(agent, "t")
    assert run.outcome is not None
    assert run.outcome.reason == "max_active_s"
    assert run.view.active_ms >= 100
