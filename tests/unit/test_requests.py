"""What a worker's main process does with a message of plain Celery, before any pool sees it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from api_client.contract import JobStatus
from api_client.errors import JobNotFound, StoreUnavailable
from api_client.hints import HINT_HEADER, plain_options
from worker import Agent, ScriptedModel, install
from worker.control import note_revoked
from worker.request import AgentRequest, options_of
from worker.settings import Settings
from worker.store.memory import MemoryStore

JOB = "job-1"
SOON = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """The store of the worker."""
    store = MemoryStore()
    monkeypatch.setattr("worker.service.Service.store", store)
    return store


@pytest.fixture
def task() -> Any:
    """The task of an agent."""
    app = Celery("x", broker="memory://", backend="cache+memory://", set_as_current=False)
    agent = Agent(name="a", goal="g", model=ScriptedModel([]))
    install(app, agents=[agent], settings=Settings(redis_url="redis://127.0.0.1:1/0"))
    return app.tasks["agent.a"]


def receive(task: Any, args: Any = ("x",), headers: Any = None, **options: Any) -> Any:
    """A message that has come from the broker."""
    made, properties, body, _ = task.app.amqp.create_task_message(JOB, task.name, args, **options)
    message = SimpleNamespace(
        headers={**made, **(headers or {})},
        body=body,
        payload=body,
        content_type="application/json",
        content_encoding="utf-8",
        delivery_info={"exchange": "", "routing_key": "celery"},
        properties=properties,
    )
    return AgentRequest(message, app=task.app, task=task, headers=message.headers, body=body)


def test_a_job_for_later_is_stored_at_once(store: MemoryStore, task: Any) -> None:
    request = receive(task, countdown=3600)
    assert request.eta is None, "no timer of Celery holds it"
    view = store.read(JOB)
    assert view.status is JobStatus.WAITING
    assert view.due is not None
    assert 3590_000 < view.due - view.created <= 3600_000


def test_a_job_that_expires_is_stored_at_once(store: MemoryStore, task: Any) -> None:
    request = receive(task, expires=3600)
    assert request.expires is None, "no double of the message is discarded when it has begun"
    within = store.read(JOB).spec.start_within_ms
    assert within is not None
    assert 3590_000 < within <= 3600_000


def test_one_without_a_time_and_a_hint_of_ours_are_left_to_the_pool(
    store: MemoryStore, task: Any
) -> None:
    receive(task)
    request = receive(task, headers={HINT_HEADER: 1}, eta=SOON)
    assert request.eta == SOON
    with pytest.raises(JobNotFound):
        store.read(JOB)


def test_without_its_store_celery_keeps_the_time(
    store: MemoryStore, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("Redis is away")

    monkeypatch.setattr(store, "create", away)
    request = receive(task, eta=SOON, expires=SOON)
    assert (request.eta, request.expires) == (SOON, SOON)


def test_a_call_that_cannot_be_taken_fails_at_once(store: MemoryStore, task: Any) -> None:
    """In the pool, which refuses it, and not in an hour."""
    assert receive(task, args=("x", "y"), eta=SOON).eta is None
    with pytest.raises(JobNotFound):
        store.read(JOB)


def test_headers_are_kept_but_for_those_of_the_broker(store: MemoryStore, task: Any) -> None:
    headers = {"campaign": "autumn", "x-request-id": "r1", "x-death": [{"count": 1}]}
    options = options_of(receive(task, headers=headers)._context)
    assert options["headers"] == {"campaign": "autumn", "x-request-id": "r1"}
    assert plain_options(options)["headers"] == options["headers"]


def test_a_message_that_was_revoked_before_anything_was_stored_is_no_error(
    store: MemoryStore, task: Any
) -> None:
    note_revoked(task, receive(task))
    with pytest.raises(JobNotFound):
        store.read(JOB)
