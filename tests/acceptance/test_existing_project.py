"""A Celery project that was there before gains an agent by one dependency and three lines."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from celery import Celery

from api_client import AgentClient
from tests.support.project import README, Project
from tests.support.workers import ROOT, RunningWorker, eventually
from worker.devserver import ModelServer
from worker.embedded import EmbeddedServer
from worker.models.scripted import act, say

POOLS = ("threads", "prefork")
ANSWER = "25 euros are on their way."

OLD_WORK = """
from celery import chain, chord, group
from proj.tasks import add, report

print(add.delay(2, 3).get(timeout=30))
print(report.delay("march").get(timeout=30))
print(chain(add.s(1, 2), add.s(4)).delay().get(timeout=30))
print(chord(group(add.s(i, i) for i in range(3)), add.s([])).delay().get(timeout=30))
"""
OLD_RESULTS = "5\n['march', 'reports']\n7\n[0, 2, 4]"

NEW_WORK = """
from proj.celery import app
from proj.tasks import notify

shop_task = app.tasks["agent.shop"]
result = (shop_task.s("The headphones of order 1187 are broken.") | notify.s()).delay()
print(result.parent.id, result.id)
"""


def clerk(messages: list[dict[str, Any]]) -> Any:
    """Asks for a refund, which needs a person's approval, then answers."""
    if messages[-1]["role"] == "tool":
        return say(ANSWER)
    return act("I refund it.", ("refund", {"order_id": "1187", "amount": 25}))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The project, a Redis for it, and a model behind an HTTP API."""
    folder = tmp_path_factory.mktemp("project")
    with EmbeddedServer(folder / "valkey") as valkey, ModelServer(clerk) as models:
        env = {"LLM_BASE_URL": models.base_url, "LLM_API_KEY": "test", "LLM_MODEL": "scripted"}
        yield Project(folder / "src", valkey.url, env)


@pytest.fixture(scope="module")
def grown(project: Project) -> Project:
    """The same, when it had done its work without an agent, and has gained one."""
    worker = project.worker("prefork")
    check_old_work(project, worker)
    assert "stepkeeper" not in worker.log.lower()
    lines = project.gain_an_agent()
    assert len(lines) == 3, "the README promises three lines"
    return project


def check_old_work(project: Project, worker: RunningWorker) -> None:
    """Its tasks, canvas, routes and schedule work; then its worker is asked to end."""
    before = len(project.lines("ticks.txt"))
    assert project.run(OLD_WORK) == OLD_RESULTS
    eventually(lambda: len(project.lines("ticks.txt")) >= before + 2, "the beat goes on")
    assert worker.stop() == 0


def test_the_readme_names_one_dependency_and_three_lines() -> None:
    [extra] = set(re.findall(r"pip install 'stepkeeper\[(\w+)\]'$", README, re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extra in extras["optional-dependencies"]
    assert "one dependency and three lines" in README


@pytest.mark.parametrize("pool", POOLS)
def test_the_project_goes_on_and_its_agent_works(grown: Project, pool: str) -> None:
    """A chain of the agent and an old task, over a pause for a person's approval."""
    worker = grown.worker(pool)
    try:
        told = len(grown.lines("notified.txt"))
        job_id, last_id = grown.run(NEW_WORK).split()
        client = AgentClient(grown.broker)  # jobs are in the app's own Redis: nothing was set
        eventually(lambda: paused(client, job_id), "the refund waits for an approval")
        assert len(grown.lines("notified.txt")) == told
        plain = Celery(broker=grown.broker, backend=grown.backend, set_as_current=False)
        eventually(lambda: str(plain.AsyncResult(job_id).state) == "PAUSED", "Celery says so")
        client.signal(job_id, {"kind": "approve", "by": "anna"})
        assert plain.AsyncResult(last_id).get(timeout=30) == f"told: {ANSWER}"
        assert grown.lines("notified.txt")[told:] == [ANSWER]
        assert refunds(client, job_id) == ["refunded 25.00 for 1187"]
        assert plain.AsyncResult(job_id).get(timeout=30) == ANSWER
        plain.close()
        check_old_work(grown, worker)
    finally:
        worker.kill()


def paused(client: AgentClient, job_id: str) -> bool:
    """Whether the job is known, and paused."""
    return any(view.job_id == job_id for view in client.inbox())


def refunds(client: AgentClient, job_id: str) -> list[str]:
    """What the tool told the model."""
    return [m["content"] for m in client.messages(job_id) if m["role"] == "tool"]


def test_its_results_stay_where_they_were(grown: Project) -> None:
    """In its own result backend, where nothing of ours is."""
    with redis.Redis.from_url(grown.backend) as backend:
        keys: Any = backend.keys("*")
    assert keys
    assert [key for key in keys if not key.startswith(b"celery-task")] == []
