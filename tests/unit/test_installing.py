"""Where the jobs of an app that took agents are stored."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from worker import Agent, ScriptedModel, install

OWN = "redis://127.0.0.1:1/3"
RABBIT = "amqp://127.0.0.1:1//"
DEFAULT = "redis://127.0.0.1:6379/0"


def stored_at(**urls: Any) -> str:
    app = Celery("x", set_as_current=False, **urls)
    agent = Agent(name="a", goal="g", model=ScriptedModel([]))
    return install(app, agents=[agent]).settings.redis_url


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPKEEPER_REDIS_URL", raising=False)


def test_in_the_apps_own_redis() -> None:
    assert stored_at(broker=OWN) == OWN


def test_of_several_servers_behind_one_broker_none_is_guessed() -> None:
    assert stored_at(broker=f"{OWN};redis://127.0.0.1:2/3") == DEFAULT


def test_in_the_redis_of_the_results_where_the_broker_is_another() -> None:
    assert stored_at(broker=RABBIT, backend=OWN) == OWN


def test_in_the_redis_of_this_machine_where_the_app_has_none() -> None:
    assert stored_at(broker=RABBIT) == DEFAULT


def test_where_the_setting_says_before_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPKEEPER_REDIS_URL", "redis://127.0.0.1:1/9")
    assert stored_at(broker=OWN) == "redis://127.0.0.1:1/9"


def test_each_of_two_apps_in_one_process_has_a_task_of_its_own() -> None:
    agent = Agent(name="a", goal="g", model=ScriptedModel([]))
    limits = ("1/s", "2/s")
    apps = [Celery(limit, set_as_current=False, broker=OWN) for limit in limits]
    for app, limit in zip(apps, limits, strict=True):
        app.conf.task_default_rate_limit = limit
        install(app, agents=[agent])
    tasks = [app.tasks[agent.task_name] for app in apps]
    assert [task.app for task in tasks] == apps
    assert [task.rate_limit for task in tasks] == list(limits)
    assert tasks[0].request_stack is not tasks[1].request_stack
