"""The README's section for curl, run as it is written."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from api_client import AgentClient
from tests.support.nursery import Nursery
from tests.support.web import WebServer
from tests.support.workers import eventually

README = Path(__file__).resolve().parents[2] / "README.md"
AGENTS = "tests.support.refund_agents"


def commands() -> list[str]:
    """The shell blocks of the section, in order."""
    section = README.read_text().split("## From curl alone\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


@pytest.fixture
def web(redis_url: str, nursery: Nursery) -> Iterator[WebServer]:
    """A server, and a worker that runs the agent ``shop``."""
    worker = nursery.start(redis_url, app="worker.app", name="w1@curl", agents=AGENTS)
    try:
        worker.wait_ready()
        eventually(AgentClient(redis_url).agents, "the agents are announced")
        with WebServer(redis_url) as web:
            yield web
    finally:
        worker.kill()


def test_the_readme_is_enough(web: WebServer) -> None:
    env = {"URL": web.url, "KEY": web.key("submit", "review"), "PATH": "/usr/bin:/bin"}

    def run(command: str) -> str:
        """One block of the section, as a shell runs it."""
        done = subprocess.run(
            ["sh", "-ec", command],
            env={**env, "no_proxy": "*"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    submit, follow, wait, answer, result = commands()
    env["JOB"] = json.loads(run(submit))["job_id"]
    assert json.loads(run(submit))["job_id"] == env["JOB"]
    asked = json.loads(run(wait))
    assert (asked["status"], asked["pause"]["id"]) == ("paused", "p1")
    assert asked["pause"]["action"]["arguments"] == {"order_id": "1187", "amount": 59.9}
    accepted = json.loads(run(answer))
    assert (accepted["kind"], accepted["by"]) == ("approve", "anna")
    assert json.loads(run(answer))["answered"]["by"] == "anna"
    outcome = json.loads(run(result))["outcome"]
    assert outcome["value"].endswith("refunded 25.00 EUR for 1187 by card")
    events = re.findall(r"^event: (.*)$", run(follow), re.MULTILINE)
    assert [events[0], *events[-2:]] == ["submitted", "finished", "end"]
    assert {"paused", "signal", "observation"} <= set(events)
