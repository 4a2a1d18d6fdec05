"""A job of an agent that a worker does not have: left as it is, for one that has it."""

from __future__ import annotations

import logging

import pytest

from api_client.contract import JobSpec, JobStatus
from worker import Agent
from worker.inline import InlineStore, InlineWorker
from worker.models import FunctionModel
from worker.runner import RunnerSettings


def clerk(name: str) -> Agent:
    """An agent that says its name."""
    return Agent(name=name, goal="Help.", model=FunctionModel(lambda _messages: f"I am {name}."))


def test_its_tries_are_not_counted_and_the_log_says_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = InlineStore()
    store.create(JobSpec(job_id="j", agent="desk", input="hello"))
    other = InlineWorker([clerk("shop")], store=store)
    for _ in range(2 * RunnerSettings().max_attempts):
        with pytest.raises(RuntimeError, match="unknown desk"):
            other.run("j")
    assert (store.read("j").status, store.read("j").tries) == (JobStatus.QUEUED, 0)
    (told, *_) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "job j is left alone: this worker does not have the agent 'desk'" in told.getMessage()
    assert "STEPKEEPER_AGENTS" in told.getMessage()
    store.skip(10)
    [hint] = store.sweep(limit=10, grace_ms=1000, cap_ms=100_000)
    assert not hint.again, "the one before it was taken in vain"
    own = InlineWorker([clerk("desk")], store=store)
    own.run("j")
    assert own.result("j").answer == "I am desk."
