"""A slice whose tools run in the driver's own thread, and what happens when one of them hangs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from api_client.contract import JobSpec
from tests.support.workers import eventually
from worker.agent import Agent
from worker.context import CallInfo
from worker.ends import Ended, Left, SliceEnd
from worker.inline import _Unrenewed
from worker.models.scripted import ScriptedModel, act, say
from worker.runner import Runner
from worker.store.memory import MemoryStore
from worker.telemetry.observer import NOBODY, Observer, ToolCalled
from worker.texts import ENGLISH
from worker.tools import build_tool, tool
from worker.tools.threads import crew

LIMIT = 0.1
here: ContextVar[str] = ContextVar("here", default="nowhere")


class Hanging:
    """A tool that hangs where its argument says so, until it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.threads: list[int] = []
        self.returned = 0

    def look(self, page: int) -> str:
        """Look; negative pages hang."""
        self.threads.append(threading.get_ident())
        if page < 0:
            self.free.wait()
        self.returned += 1
        return f"page {page}"


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    """Let go in the end, and waited for."""
    before, one = crew().left_behind, Hanging()
    yield one
    one.free.set()
    eventually(lambda: crew().left_behind == before, "what hung has returned")


def run(store: MemoryStore, tools: list[Any], *lines: Any, observer: Observer = NOBODY) -> SliceEnd:
    """One slice of a job that follows a script."""
    agent = Agent(name="a", goal="g", tools=tools, model=ScriptedModel(lines))
    runner = Runner(
        store=store,
        agents={"a": agent},
        owner="n/b/1/",
        leases=_Unrenewed(store, 0),
        clock_ms=lambda: time.monotonic_ns() // 1_000_000,
        default_model=lambda: pytest.fail("this agent has a model"),
        observer=observer,
    )
    store.create(JobSpec(job_id="j", agent="a", input="go"))
    return runner.run("j")


def observed(store: MemoryStore) -> list[str]:
    """What the model read."""
    return [m["content"] for m in store.messages("j") if m["role"] == "tool"]


def look(page: int) -> dict[str, Any]:
    """A line of a script."""
    return act("plan", ("look", {"page": page}))


def test_all_calls_of_a_slice_run_in_one_thread_and_not_the_callers(hanging: Hanging) -> None:
    store = MemoryStore()
    end = run(store, [hanging.look], look(1), look(2), look(3), say("done"))
    assert isinstance(end, Ended)
    assert len(set(hanging.threads)) == 1
    assert threading.get_ident() not in hanging.threads


def test_a_tool_that_hangs_is_left_behind_and_the_job_goes_on(hanging: Hanging) -> None:
    store, before = MemoryStore(), crew().left_behind
    slow = build_tool(hanging.look, timeout=LIMIT)
    start = time.monotonic()
    end = run(store, [slow], look(1), look(-1), look(2), look(-2), look(3), say("done"))
    assert time.monotonic() - start < 20 * LIMIT
    assert isinstance(end, Ended)
    late = ENGLISH.timeout(LIMIT)
    assert observed(store) == ["page 1", late, "page 2", late, "page 3"]
    assert crew().left_behind == before + 2
    assert len(set(hanging.threads)) == 3


def test_what_comes_back_late_is_dropped(hanging: Hanging) -> None:
    class Noting(Observer):
        """Keeps the tool calls."""

        def __init__(self) -> None:
            self.told: list[ToolCalled] = []

        def note(self, moment: Any) -> None:
            if isinstance(moment, ToolCalled):
                self.told.append(moment)

        @contextmanager
        def calling(self, call: Any) -> Iterator[None]:
            yield

    store, noting, before = MemoryStore(), Noting(), crew().left_behind
    slow = build_tool(hanging.look, timeout=LIMIT)
    end = run(store, [slow], look(-1), say("done"), observer=noting)
    stored = store.messages("j")
    hanging.free.set()
    eventually(lambda: crew().left_behind == before, "the tool has returned")
    assert isinstance(end, Ended)
    assert hanging.returned == 1
    assert store.messages("j") == stored
    assert [moment.ms for moment in noting.told] == [LIMIT * 1000]


def test_the_shortest_limit_is_kept_beside_a_long_one(hanging: Hanging) -> None:
    store = MemoryStore()

    def read(page: int) -> str:
        """Read."""
        return f"read {page}"

    tools = [build_tool(hanging.look, timeout=LIMIT), build_tool(read, timeout=300)]
    calls = act("plan", ("read", {"page": 1}), ("look", {"page": -1}), ("read", {"page": 2}))
    assert isinstance(run(store, tools, calls, say("done")), Ended)
    assert observed(store) == ["read 1", ENGLISH.timeout(LIMIT), "read 2"]


def test_a_tool_that_takes_its_time_is_not_cut_short() -> None:
    """The one who waits looks at the clock many times meanwhile."""

    @tool(timeout=30)
    def slow(page: int) -> str:
        """Slow."""
        time.sleep(5 * LIMIT)
        return f"page {page}"

    @tool(timeout=LIMIT)
    def quick() -> str:
        """Only its limit matters."""
        return ""

    store = MemoryStore()
    run(store, [slow, quick], act("plan", ("slow", {"page": 1})), say("done"))
    assert observed(store) == ["page 1"]


def test_a_tool_that_another_tool_calls_has_its_own_limit(hanging: Hanging) -> None:
    inner = build_tool(hanging.look, timeout=LIMIT)

    @tool(timeout=60)
    def outer() -> str:
        """Call another tool."""
        info = CallInfo("j", "c", 1, 1, "k")
        return inner.invoke(inner.parse('{"page": -1}'), None, info).content

    store = MemoryStore()
    run(store, [outer], act("plan", ("outer", {})), say("done"))
    assert observed(store) == [ENGLISH.timeout(LIMIT)]


def test_a_tool_sees_the_callers_context_and_leaves_nothing_in_it() -> None:
    seen: list[str] = []

    @tool
    def peek(page: int) -> str:
        """Look around."""
        seen.append(here.get())
        here.set(f"page {page}")
        return "ok"

    token = here.set("the caller's")
    try:
        lines = [act("plan", ("peek", {"page": page})) for page in (1, 2)]
        run(MemoryStore(), [peek], *lines, say("done"))
        assert seen == ["the caller's"] * 2
        assert here.get() == "the caller's"
    finally:
        here.reset(token)


def test_a_store_that_fails_behind_a_tool_ends_the_slice() -> None:
    class Failing(MemoryStore):
        """Takes no observation."""

        def commit(self, ticket: Any, progress: Any) -> Any:
            if progress.kind == "observation":
                raise OSError("the disk is gone")
            return super().commit(ticket, progress)

    @tool
    def ping() -> str:
        """Ping."""
        return "pong"

    end = run(Failing(), [ping], act("plan", ("ping", {})), say("done"))
    assert end == Left("broke_off")


def test_ctrl_c_reaches_who_waits_and_stops_the_driver(hanging: Hanging) -> None:
    """A key is pressed while a tool hangs; when it comes back, nothing more is done."""
    store, before = MemoryStore(), crew().left_behind

    def press(*_: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, press)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            run(store, [hanging.look], look(-1), say("done"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert crew().left_behind == before + 1
    hanging.free.set()
    eventually(lambda: crew().left_behind == before, "the tool has returned")
    assert observed(store) == []


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, RuntimeError])
def test_whatever_a_tool_raises_is_read_by_the_model(error: type[BaseException]) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise error("boom")

    store = MemoryStore()
    end = run(store, [fail], act("plan", ("fail", {})), say("done"))
    assert isinstance(end, Ended)
    assert error.__name__ in observed(store)[0]


def test_no_more_calls_are_begun_when_too_many_hang(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew(), "most_left_behind", crew().left_behind + 1)
    store = MemoryStore()
    slow = build_tool(hanging.look, timeout=LIMIT)
    run(store, [slow], look(-1), look(1), say("done"))
    assert observed(store) == [ENGLISH.timeout(LIMIT), ENGLISH.overloaded(crew().left_behind)]
