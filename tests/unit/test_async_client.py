"""The client for coroutines: the same methods, and an event loop that goes on."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
from celery import Celery

from api_client import AgentClient, AsyncAgentClient
from api_client.contract import Event, JobSpec, JobStatus
from api_client.errors import JobNotFound, WaitTimeout
from api_client.store import Created
from tests.support.paused import ended_job, paused_job
from worker.store.memory import MemoryStore


class SlowStore(MemoryStore):
    """A store that answers a submission when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = threading.Event()

    def create(self, spec: JobSpec, delay_ms: int = 0, **how: Any) -> Created:
        """See ``JobStore.create``."""
        assert self.answer.wait(10)
        return super().create(spec, delay_ms, **how)


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return MemoryStore()


def run(store: MemoryStore, work: Any) -> Any:
    """Run a coroutine function with a client."""

    async def main() -> Any:
        broker = Celery("aio", broker="memory://", set_as_current=False)
        async with AsyncAgentClient(store=store, app=broker) as client:
            made: Coroutine[Any, Any, Any] = work(client)
            return await asyncio.wait_for(made, 30)

    return asyncio.run(main())


def test_it_has_every_method_of_the_client_with_the_same_arguments() -> None:
    for name, method in inspect.getmembers(AgentClient, inspect.isfunction):
        if not name.startswith("_"):
            own = getattr(AsyncAgentClient, name)
            assert inspect.signature(own) == inspect.signature(method), name
            assert inspect.getdoc(own) == inspect.getdoc(method)


def test_a_job_is_submitted_waited_for_and_read(store: MemoryStore) -> None:
    async def work(client: AsyncAgentClient) -> tuple[JobStatus, list[Event]]:
        job_id = await client.submit("shop", "hello", check_agent=False)
        with pytest.raises(WaitTimeout):
            await client.wait(job_id, timeout_s=0.01)
        await client.cancel(job_id, by="anna")
        events = [event async for event in client.trace(job_id, follow=True)]
        return (await client.get(job_id)).status, events

    status, events = run(store, work)
    assert status is JobStatus.CANCELLED
    assert [event.kind for event in events] == ["submitted", "cancel", "cancelled"]


def test_pauses_are_found_and_decided(store: MemoryStore) -> None:
    paused_job(store, "asks")
    ended_job(store, "done", value=42)

    async def work(client: AsyncAgentClient) -> Any:
        (view,) = await client.inbox()
        await client.signal(view.job_id, {"kind": "answer", "value": "yes"})
        with pytest.raises(JobNotFound):
            await client.get("nobody")
        return await client.result("done")

    assert run(store, work) == 42
    assert store.read("asks").status is JobStatus.QUEUED


def test_g3_a_store_that_does_not_answer_holds_up_its_caller_only() -> None:
    store = SlowStore()

    async def work(client: AsyncAgentClient) -> str:
        submitting = asyncio.ensure_future(client.submit("shop", "hello", check_agent=False))
        for _ in range(100):  # the event loop goes round while the thread waits
            await asyncio.sleep(0)
        assert not submitting.done()
        store.answer.set()
        return await submitting

    assert store.read(run(store, work)).status is JobStatus.QUEUED
