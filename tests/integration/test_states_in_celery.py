"""What Celery's result backend says of a job between its slices."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from celery import Celery, states
from celery.result import AsyncResult

from api_client.contract import JobSpec, JobStatus, Outcome
from tests.support.workers import eventually
from worker.agent import Agent
from worker.celery_config import ours
from worker.ends import Deferred, Ended
from worker.following import report_deferred
from worker.installing import install
from worker.models import FunctionModel
from worker.service import Service
from worker.settings import Settings

# Celery's own backend calls what the Redis client would rather have called otherwise.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")

SPEC = JobSpec(job_id="j1", agent="shop", input="hello")
BUSY = Deferred(SPEC, seconds=1.5, text="too many requests", attempt=1)


@pytest.fixture
def service(redis_url: str) -> Service:
    """A service on a real backend, with one job."""
    settings = Settings(redis_url=redis_url)
    app = Celery("test", set_as_current=False)
    app.conf.update(ours(settings))
    agent = Agent("shop", goal="Help.", model=FunctionModel(lambda _messages: "hello"))
    service = install(app, [agent], settings=settings)
    service.store.create(SPEC)
    return service


def test_a_sub_job_that_is_not_there_keeps_no_end_from_being_published(service: Service) -> None:
    """The worker died between noting that it would start it and starting it."""
    outcome = Outcome(ok=False, reason="cancelled", text="cancelled by anna")
    ended = Ended(SPEC, JobStatus.CANCELLED, outcome, children=("never-started", "child"))
    service.store.create(SPEC.model_copy(update={"job_id": "child", "parent": SPEC.job_id}))
    service.settle_family(ended)
    assert service.store.read("child").status is JobStatus.CANCELLED


def _result(service: Service) -> AsyncResult[str]:
    return AsyncResult(SPEC.job_id, app=service.app)


def test_a_job_that_waits_for_its_model_says_why(service: Service) -> None:
    """Whoever looks at its state can read it: Celery takes it for an exception."""
    report_deferred(service, BUSY)
    assert _result(service).state == states.RETRY
    assert str(_result(service).info) == "too many requests"


def test_the_answer_is_stored_over_the_wait(service: Service) -> None:
    report_deferred(service, BUSY)
    service.app.backend.mark_as_done(SPEC.job_id, "the answer")
    assert _result(service).get(timeout=10) == "the answer"


def test_a_wait_reported_too_late_changes_no_final_state(service: Service) -> None:
    """The worker was slow; meanwhile the job was cancelled, and another worker published that."""
    service.store.cancel(SPEC.job_id, by="anna")
    service.app.backend.mark_as_revoked(SPEC.job_id, "cancelled by anna")
    service.store.published(SPEC.job_id)
    report_deferred(service, BUSY)
    assert service.app.backend.get_state(SPEC.job_id) == states.REVOKED


def test_a_wait_reported_while_the_end_is_being_published_changes_it_neither(
    service: Service,
) -> None:
    """Behind the final state, and before the store knows that it is published."""
    service.store.cancel(SPEC.job_id, by="anna")
    service.app.backend.mark_as_revoked(SPEC.job_id, "cancelled by anna")
    reporting = threading.Thread(target=report_deferred, args=(service, BUSY))
    reporting.start()
    eventually(
        lambda: service.app.backend.get_state(SPEC.job_id) == states.RETRY, "the wait is reported"
    )
    service.store.published(SPEC.job_id)
    reporting.join()
    assert service.app.backend.get_state(SPEC.job_id) == states.REVOKED


def test_an_end_that_its_publisher_has_left_is_left_to_the_next(service: Service) -> None:
    """Nobody waits for it for longer than publishing may take."""
    hasty = replace(service, settings=service.settings.model_copy(update={"publish_grace_s": 0.1}))
    service.store.cancel(SPEC.job_id, by="anna")
    report_deferred(hasty, BUSY)
    assert service.app.backend.get_state(SPEC.job_id) == states.RETRY


def test_a_job_whose_result_nobody_wants_shows_no_state(service: Service) -> None:
    ignored = SPEC.model_copy(update={"message": {"ignore_result": True}})
    report_deferred(service, Deferred(ignored, seconds=1.5, text="too many requests", attempt=1))
    assert service.app.backend.get_state(SPEC.job_id) == states.PENDING
