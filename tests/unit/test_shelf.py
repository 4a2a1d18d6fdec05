"""A process that gets a job back, and still has its messages."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import JobSpec
from worker.agent import Agent
from worker.ends import Ended, HandedOver, SliceEnd
from worker.inline import _Unrenewed
from worker.messages import Transcript, system
from worker.models.function import FunctionModel
from worker.models.scripted import act, say
from worker.runner import Runner, RunnerSettings
from worker.shelf import Kept, Shelf
from worker.store.base import Claim, Claimed, Mark
from worker.store.memory import MemoryStore
from worker.tools import tool

STEPS = 7
RETENTION_MS = 60_000
SPEC = JobSpec(job_id="j", agent="a", input="go", retention_s=RETENTION_MS // 1000)


def kept(size: int, seq: int = 1) -> Kept:
    return Kept(Mark("n", 1, seq, 1), Transcript([system("g")]), size)


def test_the_oldest_go_first() -> None:
    shelf = Shelf(most_bytes=100)
    for number in range(3):
        shelf.put(f"job-{number}", kept(40))
    assert shelf.take("job-0") is None
    assert shelf.take("job-1") is not None
    assert shelf.take("job-1") is None, "it has been taken"
    assert shelf.take("job-2") is not None


def test_what_is_larger_than_the_shelf_is_not_kept() -> None:
    shelf = Shelf(most_bytes=100)
    shelf.put("job", kept(101))
    assert shelf.take("job") is None
    shelf.put("small", kept(100))
    assert shelf.take("small") is not None, "nothing of the other is counted any more"


def test_the_latest_of_a_job_counts_once() -> None:
    shelf = Shelf(most_bytes=100)
    shelf.put("other", kept(40))
    for seq in range(9):
        shelf.put("job", kept(40, seq))
    found = shelf.take("job")
    assert found is not None
    assert found.mark.seq == 8
    assert shelf.take("other") is not None


@tool(effects="safe")
def look(page: int) -> str:
    """Look."""
    return f"page {page}"


class Claims(MemoryStore):
    """Remembers what claims brought."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        super().__init__(lambda: self.now)
        self.brought: list[int | None] = []

    def claim(self, job_id: str, **how: Any) -> Claim:
        """Take a job; notes how many messages were read, ``None`` for none of them."""
        found = super().claim(job_id, **how)
        if isinstance(found, Claimed):
            self.brought.append(None if found.unchanged else len(found.messages))
        return found


class Fleet:
    """Processes with one store."""

    def __init__(self, model: Any = None, **settings: Any) -> None:
        self.store = Claims()
        self.asked: list[int] = []
        self.agent = Agent(
            "a", "goal", [look], model or FunctionModel(self._reply), max_repeats=None
        )
        self.settings = RunnerSettings(slice_steps=2, hint_grace_ms=0, **settings)
        self.store.create(SPEC)

    def _reply(self, messages: Any) -> Any:
        self.asked.append(len(messages))
        number = len(self.asked)
        return say("done") if number > STEPS else act("plan", ("look", {"page": number}))

    def process(self, name: str = "n/b/1/") -> Runner:
        """One more process."""
        return Runner(
            store=self.store,
            agents={"a": self.agent},
            owner=name,
            leases=_Unrenewed(self.store, 0),
            clock_ms=lambda: 0,
            default_model=lambda: pytest.fail("this agent has a model"),
            settings=self.settings,
        )


def to_end(*processes: Runner) -> SliceEnd:
    """Slices of the job, by one process after the other."""
    for number in range(50):
        end = processes[number % len(processes)].run("j")
        if not isinstance(end, HandedOver):
            return end
    raise AssertionError("it does not end")


def test_a_list_is_read_once_by_a_process_that_keeps_the_job() -> None:
    fleet = Fleet()
    assert isinstance(to_end(fleet.process()), Ended)
    assert fleet.store.brought == [0, None, None, None]
    assert fleet.asked == [2 + 2 * step for step in range(STEPS + 1)]


def test_what_others_have_added_is_read() -> None:
    fleet = Fleet()
    assert isinstance(to_end(fleet.process("n/b/1/"), fleet.process("n/b/2/")), Ended)
    assert fleet.store.brought == [0, 5, 9, 13], "the list of the first is two steps old"
    assert fleet.asked == [2 + 2 * step for step in range(STEPS + 1)]


def test_a_job_of_the_same_id_is_another() -> None:
    fleet = Fleet()
    process = fleet.process()
    assert isinstance(process.run("j"), HandedOver)
    fleet.store.cancel("j")
    fleet.store.claim("j", owner="x", nonce="x", lease_ms=1, max_tries=1)
    fleet.store.published("j")
    fleet.store.now += RETENTION_MS
    fleet.asked.clear()
    fleet.store.create(SPEC)
    other = fleet.process("n/b/2/")
    assert isinstance(other.run("j"), HandedOver)  # as many commits as the first had made
    assert isinstance(to_end(process), Ended)
    assert fleet.asked == [2 + 2 * step for step in range(STEPS + 1)]
