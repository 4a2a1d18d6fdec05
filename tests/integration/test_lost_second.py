"""A server that comes back without its last second: what a process still holds is from a lost time.

With ``appendfsync everysec``, and at a failover, claims and commits can be lost that processes know
of. The same numbers are given once more then, to what others do.
"""

from __future__ import annotations

from typing import Any

import pytest

from api_client.connection import connect
from api_client.contract import JobSpec
from worker.agent import Agent
from worker.commits import Commits
from worker.ends import HandedOver
from worker.inline import _Unrenewed
from worker.models.function import FunctionModel
from worker.models.scripted import act
from worker.runner import Runner, RunnerSettings
from worker.state import RunState
from worker.store.base import Claimed, Progress
from worker.store.redis import RedisCheckpointStore
from worker.tools import tool


@tool(effects="safe")
def look(page: str) -> str:
    """Look."""
    return f"page {page}"


class Process:
    """One process; its model says who it is."""

    def __init__(self, name: str, store: RedisCheckpointStore) -> None:
        self.asked: list[list[dict[str, Any]]] = []
        self._name = name
        agent = Agent("a", "goal", [look], FunctionModel(self._reply), max_repeats=None)
        self._runner = Runner(
            store=store,
            agents={"a": agent},
            owner=f"n/{name}/1/",
            leases=_Unrenewed(store, 0),
            clock_ms=lambda: 0,
            default_model=lambda: pytest.fail("this agent has a model"),
            settings=RunnerSettings(slice_steps=1, hint_grace_ms=0),
        )

    def _reply(self, messages: Any) -> Any:
        self.asked.append([dict(message) for message in messages])
        return act("plan", ("look", {"page": f"{self._name}{len(self.asked)}"}))

    def slice(self) -> None:
        """One step of the job."""
        assert isinstance(self._runner.run("j"), HandedOver)


def test_messages_of_a_lost_second_are_shown_to_no_model(redis_url: str) -> None:
    client: Any = connect(redis_url)
    store = RedisCheckpointStore(client)
    store.create(JobSpec(job_id="j", agent="a", input="go"))
    one, two = Process("one", store), Process("two", store)
    one.slice()
    before = {key: client.dump(key) for key in client.keys("{sk:*")}
    one.slice()  # what it does now, and keeps, the server loses
    client.flushdb()
    for key, value in before.items():
        client.restore(key, 0, value)
    two.slice()  # the same epoch and the same number of the last commit as of the lost slice
    stored = store.messages("j")
    one.slice()
    assert "two1" in str(stored)
    assert one.asked[-1][: len(stored)] == [dict(message) for message in stored]


def test_who_holds_a_lost_claim_writes_nothing_more(redis_url: str) -> None:
    client: Any = connect(redis_url)
    store = RedisCheckpointStore(client)
    store.create(JobSpec(job_id="j", agent="a", input="go"))
    before = {key: client.dump(key) for key in client.keys("{sk:*")}
    first = _claim(store, "one")
    first.commit(_said("one"))
    client.flushdb()
    for key, value in before.items():
        client.restore(key, 0, value)
    second = _claim(store, "two")
    second.commit(_said("two"))
    assert [answer.verdict for answer in first.commit(_said("late"))] == ["fenced"]
    assert [answer.verdict for answer in second.commit(_said("two, again"))] == ["committed"]
    assert [message["content"] for message in store.messages("j")] == ["two", "two, again"]


def _claim(store: RedisCheckpointStore, owner: str) -> Commits:
    claim = store.claim("j", owner=owner, nonce=owner, lease_ms=60_000, max_tries=5)
    assert isinstance(claim, Claimed)
    assert claim.epoch == 1
    return Commits(store, claim, 1.0, lambda: 0)


def _said(text: str) -> Progress:
    return Progress(RunState().dump(), "reply", {}, [{"role": "user", "content": text}])
