"""What a submission through Celery may ask for, and what is refused before anything is stored."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from api_client.errors import InvalidInput, StoreUnavailable
from worker import Agent, ScriptedModel, install, run_inline, tool
from worker.celery_config import check_backend, check_pool
from worker.models import FunctionModel
from worker.models.scripted import act, say
from worker.options import inherited, merged, start_delay_ms, start_within_ms
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
        ("time_limit", 5, "max_active_s"),
        ("soft_time_limit", 5, "max_active_s"),
    ],
)
def test_d3_what_cannot_be_kept_on_every_pool_is_refused(
    task: Any, option: str, value: int, advice: str
) -> None:
    with pytest.raises(InvalidInput, match=f"{option}={value}.*{advice}"):
        task.apply_async(args=["x"], **{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("expires", "soon"),
        ("expires", {}),
        ("expires", float("nan")),
        ("eta", "2026-13-01"),
        ("eta", [1]),
        ("countdown", "5"),
        ("countdown", 1e12),
    ],
)
def test_a_time_that_is_none_is_refused(task: Any, option: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^{option}: .*given: "):
        task.apply_async(args=["x"], **{option: value})


NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (90, 90.0),
        (1.5, 1.5),
        (NOW + timedelta(minutes=1), 60.0),
        (datetime(2026, 11, 30, 12, 1), 60.0),  # noqa: DTZ001 - Celery takes it as UTC
        ("2026-11-30T12:01:00+00:00", 60.0),
        ("2026-11-30T13:01:00+01:00", 60.0),
        ("2026-11-30T12:01:00", 60.0),
        (NOW - timedelta(minutes=1), 0.0),
    ],
)
def test_a_time_is_given_in_every_form_that_celery_takes(
    monkeypatch: pytest.MonkeyPatch, value: Any, seconds: float
) -> None:
    app = Celery("x", set_as_current=False)
    app.conf.update(timezone="Europe/Berlin")
    monkeypatch.setattr(app, "now", lambda: NOW)
    assert start_within_ms(app, value) == seconds * 1000
    assert start_delay_ms(app, {"eta": value}) == seconds * 1000


def test_an_eta_goes_before_a_countdown_and_neither_is_no_delay() -> None:
    app = Celery("x", set_as_current=False)
    assert start_delay_ms(app, {"eta": 5, "countdown": 7}) == 5000
    assert start_delay_ms(app, {"eta": None, "countdown": None}) == 0
    assert start_within_ms(app, None) is None


@pytest.fixture
def inside(task: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Another task runs in this thread."""
    request = SimpleNamespace(id="t1", root_id="r1", delivery_info={"priority": 4})
    caller = SimpleNamespace(request=request, app=task.app, children=[])
    caller.add_trail = caller.children.append
    monkeypatch.setattr(type(task.app), "current_worker_task", caller)
    monkeypatch.setattr("worker.service.Service.store", Away())
    return caller


class Away:
    """A store that cannot be reached."""

    def create(self, *_: Any, **__: Any) -> Any:
        raise StoreUnavailable("Redis is away")


def test_what_celery_passes_on_is_sent_as_a_message_where_the_store_is_away(
    task: Any, inside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error here would cost the result of the task that has just run."""
    sent: list[Any] = []
    monkeypatch.setattr(
        task.app, "send_task", lambda *args, **options: sent.append((args, options))
    )
    result = task.s().apply_async(("answer",), task_id="j1", parent_id="t1", root_id="r1")
    assert result.id == "j1"
    ((args, options),) = sent
    assert args == ("agent.a", ("answer",), {})
    assert options["task_id"] == "j1"
    assert options["parent_id"] == "t1"


def test_a_task_that_submits_by_itself_is_told(task: Any, inside: Any) -> None:
    with pytest.raises(StoreUnavailable):
        task.delay("x")
    with pytest.raises(InvalidInput, match="takes one positional argument"):
        task.delay("x", "y")
    assert inside.children == []


def test_a_job_inherits_from_the_task_that_submits_it(task: Any, inside: Any) -> None:
    assert inherited(inside) == {"root_id": "r1", "parent_id": "t1"}
    task.app.conf.task_inherit_parent_priority = True
    assert inherited(inside) == {"root_id": "r1", "parent_id": "t1", "priority": 4}
    assert inherited(None) == {}
    assert merged({"a": 1, "b": 2}, {"a": None, "b": 3}) == {"a": 1, "b": 3}


@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_d3_a_pool_that_breaks_promises_is_refused(pool: str) -> None:
    class TaskPool:
        """Stands for Celery's class of that pool."""

    TaskPool.__module__ = f"celery.concurrency.{pool}"
    with pytest.raises(InvalidInput, match=f"pool '{pool}' is not supported"):
        check_pool(NOWHERE, TaskPool)


@pytest.mark.parametrize(
    ("broker", "backend", "words"),
    [
        ("amqp://", "rpc://", "result_backend='rpc://'.*use redis://"),
        ("redis://", "cache+memory://", "stay in the memory of the worker"),
        ("redis://", "redis://", ""),
        ("redis://", "db+sqlite:///x", ""),
        ("redis://", "file:///x", ""),
        ("redis://", None, ""),
        ("memory://", "cache+memory://", ""),
    ],
)
def test_a_backend_in_which_nobody_finds_a_result_is_refused(
    broker: str, backend: str | None, words: str
) -> None:
    app = Celery("x", broker=broker, backend=backend, set_as_current=False)
    with pytest.raises(InvalidInput, match=words) if words else nullcontext():
        check_backend(app)


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
