"""Commands to workers, answered without a worker: only what a store and a flag tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker.control import Panel

from api_client.contract import JobSpec
from api_client.errors import StoreUnavailable
from worker import commands
from worker.flags import StopFlag
from worker.store.memory import MemoryStore, wall_clock_ms


@pytest.fixture
def state() -> Any:
    """A worker's state, as far as commands look at it: two jobs run here, one is known."""
    store = MemoryStore(wall_clock_ms)
    store.create(JobSpec(job_id="known", agent="shop", input="secret task", tenant="t"))
    leases = SimpleNamespace(jobs=["gone", "known"])
    service = SimpleNamespace(store=store, leases=leases, drained=StopFlag(), stop=StopFlag())
    return SimpleNamespace(app=SimpleNamespace(stepkeeper=service))


def test_a_job_that_cannot_be_read_hides_no_other(state: Any) -> None:
    answer = commands.agent_jobs(state)
    gone, known = answer["jobs"]
    assert gone["job"] == "gone"
    assert "no job 'gone'" in gone["error"]
    assert (known["job"], known["agent"], known["tenant"]) == ("known", "shop", "t")
    assert "secret task" not in str(answer)


def test_a_store_that_is_away_is_an_answer(state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_job_id: str) -> None:
        raise StoreUnavailable("cannot reach the store")

    monkeypatch.setattr(state.app.stepkeeper.store, "read", read)
    assert commands.agent_job(state, job_id="known") == {
        "error": "agent_job: cannot reach the store"
    }


def test_a_worker_without_agents_says_so() -> None:
    answer = commands.agent_jobs(SimpleNamespace(app=SimpleNamespace()))
    assert "worker.install" in answer["error"]


def test_a_worker_that_leaves_is_not_undrained(state: Any) -> None:
    state.app.stepkeeper.stop.set()
    assert "shutting down" in commands.agent_undrain(state)["error"]


def test_commands_that_change_nothing_are_for_inspect_the_others_for_control() -> None:
    kinds = {name: Panel.meta[name].type for name in Panel.meta if name.startswith("agent_")}
    assert kinds == {
        "agent_jobs": "inspect",
        "agent_job": "inspect",
        "agent_pause": "control",
        "agent_drain": "control",
        "agent_undrain": "control",
        "agent_reload": "control",
    }


def test_the_command_line_can_say_how_they_are_called() -> None:
    """``celery control --list`` reads this."""
    pause = Panel.meta["agent_pause"]
    assert pause.signature == "<job id> [note [by]]"
    assert pause.args == [("job_id", str), ("note", str), ("by", str)]
    assert pause.help == "Pause a job at its next commit, until a person lets it go on."
