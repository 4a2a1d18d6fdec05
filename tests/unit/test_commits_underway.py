"""A reply's commit is on its way while a ``safe`` tool runs, and never while anything else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api_client.contract import JobSpec, JobStatus, Mail, Wish
from api_client.errors import StoreUnavailable
from worker.agent import Agent
from worker.ends import Ended, HandedOver, Left, SliceEnd, Suspended
from worker.errors import PauseRequested
from worker.inline import _Unrenewed
from worker.models.scripted import ScriptedModel, act, say
from worker.runner import Runner, RunnerSettings
from worker.shelf import Shelf
from worker.store.base import CommitAnswer, Progress, Ticket, Underway
from worker.store.memory import MemoryStore
from worker.tools import tool

LIMIT_MS = 1_000_000


class Slow(MemoryStore):
    """Commits that were begun arrive when they are waited for, or when something else is done."""

    def __init__(self, happened: list[str]) -> None:
        super().__init__(lambda: 1_700_000_000_000)
        self.happened = happened
        self.away = 0

    def commit(self, ticket: Ticket, progress: Progress) -> CommitAnswer:
        """Commit at once."""
        self.happened.append(f"committed {progress.kind}")
        return super().commit(ticket, progress)

    def begin_commit(
        self, ticket: Ticket, progress: Progress, before: Underway | None = None
    ) -> Underway:
        """Commit when the answer is asked for."""
        self.happened.append(f"sent {progress.kind}")

        def answer() -> CommitAnswer:
            if self.away:
                self.away -= 1
                raise StoreUnavailable("away")
            return self.commit(ticket, progress)

        return answer


class Bench:
    """One agent with a tool of each kind, and a list of what happened in which order."""

    def __init__(self, *lines: Any, **of_agent: Any) -> None:
        self.happened: list[str] = []
        self.store = Slow(self.happened)
        self.meanwhile: Callable[[], object] = lambda: None
        self.shelf = Shelf()

        @tool(effects="safe")
        def look(page: int) -> str:
            """Look."""
            self.happened.append("look")
            self.meanwhile()
            return f"page {page}"

        @tool(effects="idempotent")
        def put(page: int) -> str:
            """Put."""
            self.happened.append("put")
            return f"put {page}"

        self.agent = Agent(
            name="a", goal="g", tools=[look, put], model=ScriptedModel(lines), **of_agent
        )

    def run(self, **settings: Any) -> SliceEnd:
        """Submit a job and run one slice."""
        self.store.create(JobSpec(job_id="j", agent="a", input="go"))
        return self.again(**settings)

    def again(self, **settings: Any) -> SliceEnd:
        """Run one more slice."""
        runner = Runner(
            store=self.store,
            agents={"a": self.agent},
            owner="n/b/1/",
            leases=_Unrenewed(self.store, 0),
            clock_ms=lambda: 0,
            default_model=lambda: pytest.fail("this agent has a model"),
            settings=RunnerSettings(**settings),
        )
        runner.shelf = self.shelf  # all slices run in one process
        return runner.run("j")

    def roles(self) -> list[str]:
        """Of the messages that are stored."""
        return [message["role"] for message in self.store.messages("j")]


LOOK = act("plan", ("look", {"page": 1}))
PUT = act("plan", ("put", {"page": 1}))
BAD = act("plan", ("look", {"page": "one"}))


def test_a_safe_tool_runs_while_the_commit_is_on_its_way() -> None:
    bench = Bench(LOOK, say("done"))
    assert isinstance(bench.run(), Ended)
    assert bench.happened == [
        "sent reply", "look", "sent observation", "committed reply", "committed observation",
    ]  # fmt: skip


def test_any_other_tool_waits_for_the_commit() -> None:
    bench = Bench(PUT, say("done"))
    assert isinstance(bench.run(), Ended)
    assert bench.happened == ["committed reply", "put", "committed observation"]


def test_safe_tools_side_by_side_run_meanwhile_too() -> None:
    both = act("plan", ("look", {"page": 1}), ("look", {"page": 2}))
    bench = Bench(both, say("done"), parallel_safe=True)
    assert isinstance(bench.run(), Ended)
    assert bench.happened[:5] == [
        "sent reply", "look", "look", "sent observation", "committed reply",
    ]  # fmt: skip


def test_a_second_call_waits_for_the_first_observation() -> None:
    bench = Bench(act("plan", ("look", {"page": 1}), ("put", {"page": 2})), say("done"))
    assert isinstance(bench.run(), Ended)
    assert bench.happened == [
        "sent reply", "look", "sent observation", "committed reply", "committed observation",
        "put", "committed observation",
    ]  # fmt: skip


def test_a_call_that_is_not_run_after_all_is_answered_behind_it() -> None:
    bench = Bench(BAD, say("done"))
    assert isinstance(bench.run(), Ended)
    assert bench.happened == [
        "sent reply", "sent observation", "committed reply", "committed observation",
    ]  # fmt: skip


def test_an_end_waits_for_the_commit() -> None:
    """Here the safe tool asks for a person."""
    bench = Bench(LOOK, say("done"))
    bench.meanwhile = _ask
    assert isinstance(bench.run(), Suspended)
    assert bench.happened == ["sent reply", "look", "committed reply"]


@pytest.mark.parametrize("line", [LOOK, BAD], ids=["run", "not run"])
def test_a_cancel_takes_effect_at_the_next_answer(line: Any) -> None:
    bench = Bench(line, say("done"))
    bench.store.create(JobSpec(job_id="j", agent="a", input="go"))
    bench.agent.model.reply = _first(bench.agent.model, lambda: bench.store.cancel("j"))  # type: ignore[union-attr, method-assign]
    end = bench.again()
    assert isinstance(end, Ended)
    assert end.status is JobStatus.CANCELLED
    assert bench.roles() == ["system", "user", "assistant", "tool"]


@pytest.mark.parametrize("line", [LOOK, BAD], ids=["run", "not run"])
def test_a_wish_to_pause_is_granted(line: Any) -> None:
    bench = Bench(line, say("done"))
    bench.store.create(JobSpec(job_id="j", agent="a", input="go"))
    bench.agent.model.reply = _first(  # type: ignore[union-attr, method-assign]
        bench.agent.model, lambda: bench.store.halt("j", Wish(by="anna"))
    )
    end = bench.again()
    assert isinstance(end, Suspended)
    assert end.pause.kind == "operator"
    assert bench.roles() == ["system", "user", "assistant", "tool"]
    assert bench.store.read("j").steps == 1


def test_a_wish_that_comes_before_an_end_is_granted_by_the_next_claim() -> None:
    """The loop has gone on to an end of its own; the job goes back as it was committed."""
    bench = Bench(LOOK, say("done"))

    def both() -> None:
        bench.store.halt("j", Wish(by="anna"))
        _ask()

    bench.meanwhile = both
    assert isinstance(bench.run(), HandedOver)
    assert bench.roles() == ["system", "user", "assistant"]
    end = bench.again()
    assert isinstance(end, Suspended)
    assert end.pause.kind == "operator"


def test_a_cancel_before_an_end_wins() -> None:
    bench = Bench(LOOK, say("done"))

    def both() -> None:
        bench.store.cancel("j")
        _ask()

    bench.meanwhile = both
    end = bench.run()
    assert isinstance(end, Ended)
    assert end.status is JobStatus.CANCELLED


def test_a_message_is_heard_after_the_tool() -> None:
    bench = Bench(LOOK, say("done"))
    bench.meanwhile = lambda: bench.store.message("j", Mail(text="hurry"), "m")
    assert isinstance(bench.run(), Ended)
    assert bench.roles() == ["system", "user", "assistant", "tool", "user", "assistant"]


def test_a_runner_without_its_lease_writes_nothing_more() -> None:
    bench = Bench(LOOK, say("done"))
    bench.meanwhile = lambda: _take_over(bench.store)
    assert bench.run() == Left("fenced")
    assert bench.happened[-1] == "committed observation"  # and refused
    assert bench.roles() == []


def test_the_last_commit_of_a_slice_is_waited_for() -> None:
    bench = Bench(LOOK, say("done"))
    assert isinstance(bench.run(slice_steps=1), HandedOver)
    assert bench.happened == ["committed reply"]
    assert isinstance(bench.again(), Ended)


def test_a_store_that_is_away_is_waited_for_behind_the_tool() -> None:
    bench = Bench(LOOK, say("done"))
    bench.store.away = 2
    assert isinstance(bench.run(), Ended)
    assert bench.happened.count("look") == 1
    assert bench.roles() == ["system", "user", "assistant", "tool", "assistant"]


def test_a_store_that_stays_away_leaves_the_job() -> None:
    bench = Bench(LOOK, say("done"))
    bench.store.away = LIMIT_MS
    end = bench.run(patience_s=0.05)
    assert isinstance(end, Left)
    assert end.why == "store_unavailable"


def _ask() -> None:
    raise PauseRequested("Which page?")


def _first(model: Any, act: Callable[[], object]) -> Callable[..., Any]:
    """The model's ``reply``, before whose first answer something happens."""
    reply, todo = model.reply, [act]

    def replying(request: Any) -> Any:
        if todo:
            todo.pop()()
        return reply(request)

    return replying


def _take_over(store: MemoryStore) -> None:
    store.abandon("n/b/")
    store.claim("j", owner="m/c/2/", nonce="x", lease_ms=1000, max_tries=5)
