"""The lessons' runs on a real worker, a real Redis and a model behind HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from celery import Celery
from celery.result import AsyncResult

from api_client import AgentClient, Answer, JobStatus, JobView
from api_client.redis_store import RedisJobStore
from worker.demo.worker_process import WorkerProcess
from worker.devserver import ModelServer, Strict
from worker.embedded import EmbeddedServer
from worker.examples.book import Book
from worker.examples.folder import shipped_pages
from worker.examples.scripts import (
    CALCULATOR_TASK,
    COMPENSATION_TASK,
    COURIER_TASK,
    DOCS_SCRIPT,
    DOCS_TASK,
    RETURN_TASK,
    ExampleModel,
)
from worker.rendering import follow, rests

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60


@dataclass(frozen=True)
class Shop:
    """A worker with the three agents, and how to speak to it."""

    client: AgentClient
    store: RedisJobStore
    celery: Celery
    requests: Book
    papers: Book

    def rest(self, job_id: str) -> JobView:
        """Where a job stands when nothing more happens by itself."""
        for _ in follow(self.store, job_id, until=rests, timeout_s=LIMIT_S):
            pass
        return self.store.read(job_id)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """One worker for all of these tests."""
    folder = tmp_path_factory.mktemp("lessons")
    with (
        EmbeddedServer(folder / "redis") as redis,
        ModelServer(ExampleModel(), strict=Strict()) as server,
    ):
        requests, papers = (f"sqlite:///{folder}/{name}" for name in ("requests", "papers"))
        env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("STEPKEEPER_", "LLM_"))},
            "PYTHONPATH": str(ROOT),
            "STEPKEEPER_REDIS_URL": redis.url,
            "STEPKEEPER_AGENTS": "worker.examples",
            "STEPKEEPER_DOCS_DIR": str(shipped_pages()),
            "STEPKEEPER_SHOP_DB": requests,
            "STEPKEEPER_PAPERS_DB": papers,
            "LLM_BASE_URL": server.base_url,
            "LLM_API_KEY": "some-key-or-other",
            "LLM_MODEL": "scripted",
        }
        worker = WorkerProcess(["--name=lessons@localhost"], env, folder / "log", folder)
        store = RedisJobStore.from_url(redis.url)
        app = Celery(broker=redis.url, backend=redis.url, set_as_current=False)
        client = AgentClient(redis.url, store=store, app=app)
        try:
            yield Shop(client, store, app, Book(requests), Book(papers))
        finally:
            worker.stop()
            app.close()


def test_a_plain_celery_app_gets_the_answers(running: Shop) -> None:
    sent = [
        running.celery.send_task("agent.docs", args=[DOCS_TASK]),
        running.celery.send_task("agent.calculator", args=[CALCULATOR_TASK]),
    ]

    answers = [result.get(timeout=LIMIT_S) for result in sent]

    assert answers == [DOCS_SCRIPT[-1]["content"], {"value": 420.0}]
    assert running.papers.asked() == [1]


def test_the_return_opens_one_request(running: Shop) -> None:
    job_id = running.client.submit("shop", RETURN_TASK, check_agent=False)

    assert "R-1" in running.client.result(job_id, timeout_s=LIMIT_S)
    assert (running.requests.entries(), running.requests.asked()) == (["für 1187"], [1])


def test_the_courier_is_not_asked_a_second_time(running: Shop) -> None:
    job_id = running.client.submit("shop", COURIER_TASK, check_agent=False)

    view = running.rest(job_id)
    assert view.pause is not None
    assert (view.status, view.pause.kind) == (JobStatus.PAUSED, "repeated_action")
    running.client.signal(job_id, {"kind": "finish", "answer": "Am 3. November.", "by": "Ada"})
    assert running.client.result(job_id, timeout_s=LIMIT_S) == "Am 3. November."


def test_the_compensation_waits_and_goes_on(running: Shop) -> None:
    job_id = running.client.submit("shop", COMPENSATION_TASK, check_agent=False)

    view = running.rest(job_id)
    assert view.pause is not None
    assert view.pause.question == "Entschädigung für 1042"
    assert running.store.read(job_id).worker is None
    running.client.signal(job_id, Answer(value="15 €.", by="Ada"), pause_id=view.pause.id)

    answer: str = AsyncResult(job_id, app=running.celery).get(timeout=LIMIT_S)
    assert answer.endswith("entschieden: 15 €.")
