"""What services learn of budgets: the limits of an agent, and what people have added."""

from __future__ import annotations

import pytest

from api_client.contract import JobSpec, JobStatus, Pause, PauseKind
from worker.agent import Agent
from worker.errors import AgentDefinitionError
from worker.state import RunState
from worker.store.base import Claimed, Progress, Settlement, Ticket
from worker.store.memory import MemoryStore


def test_an_agent_announces_the_limits_that_it_has() -> None:
    agent = Agent(name="shop", goal="Help.", max_steps=7, max_tokens=9000, max_active_s=1.5)
    assert agent.info("fast").limits == {"steps": 7, "tokens": 9000, "active_s": 1.5}
    assert Agent(name="free", goal="Help.", max_steps=None).info().limits == {}


def test_a_view_tells_what_people_have_added() -> None:
    store = MemoryStore()
    store.create(JobSpec(job_id="j", agent="shop", input="x"))
    claim = store.claim("j", owner="w/b/1/", nonce="n", lease_ms=1000, max_tries=5)
    assert isinstance(claim, Claimed)
    assert store.read("j").granted == {}
    pause = Pause(id="p1", kind=PauseKind.BUDGET, question="?", accepts=("extend",))
    progress = Progress(RunState(granted={"steps": 5}).dump(), "paused", {})
    settlement = Settlement(JobStatus.PAUSED, pause)
    store.settle(Ticket("j", claim.epoch, claim.seq + 1), progress, settlement)
    assert store.read("j").granted == {"steps": 5}


@pytest.mark.parametrize("cap", [0, -1, 10**9 + 1])
def test_a_backlog_out_of_range_is_refused(cap: int) -> None:
    with pytest.raises(AgentDefinitionError, match=f"max_backlog={cap} must be from 1 to"):
        Agent(name="shop", goal="Sell.", max_backlog=cap)
