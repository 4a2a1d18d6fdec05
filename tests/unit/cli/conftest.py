"""Commands on a store in memory, without a process or a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from celery import Celery

from api_client import AgentClient
from api_client.contract import AgentInfo, JobSpec
from worker.cli.command import Common
from worker.cli.session import Session
from worker.store.memory import MemoryStore


@dataclass
class Said:
    """What a command returned and printed."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


class Desk:
    """Runs commands' functions as the command line would."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.store = MemoryStore()
        self.store.announce([AgentInfo(name="shop", version="1", queue="celery")])
        self._broker = Celery("desk", broker="memory://", set_as_current=False)
        self._capsys = capsys

    def run(self, function: Callable[..., int], *args: Any, json: bool = False, **kw: Any) -> Said:
        """Call a command; errors are not caught."""
        with Session(Common(json=json)) as session:
            session.__dict__["store"] = self.store
            session.__dict__["client"] = AgentClient(store=self.store, app=self._broker)
            code = function(session, *args, **kw)
        out, err = self._capsys.readouterr()
        return Said(code, out, err)

    def job(self, job_id: str = "job-1", **fields: Any) -> str:
        """A job that no worker has taken."""
        self.store.create(JobSpec(job_id=job_id, agent="shop", **{"input": "hello", **fields}))
        return job_id


@pytest.fixture
def desk(capsys: pytest.CaptureFixture[str]) -> Desk:
    """A store in memory where workers have announced the agent ``shop``."""
    return Desk(capsys)
