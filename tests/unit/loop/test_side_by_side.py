"""Neighbouring calls of safe tools at once: the same answers, in the same order."""

from __future__ import annotations

import json
import threading
from typing import Any

from worker import ActionContext, Agent, run_inline, tool
from worker.models.scripted import act, say


class Ctx(ActionContext):
    """Nothing hidden but the call."""


def calls(*names: str) -> list[Any]:
    return [act("go", *((name, {"x": n}) for n, name in enumerate(names))), say("done")]


def test_e13_safe_calls_run_at_the_same_time_and_are_answered_in_order() -> None:
    meeting = threading.Barrier(8, timeout=10)

    @tool(effects="safe")
    def look(x: int) -> int:
        """Return what it was given, when all eight have come."""
        meeting.wait()
        return x

    agent = Agent(name="a", goal="g", tools=[look], parallel_safe=True)
    run = run_inline(agent, "t", model=calls(*["look"] * 8))
    assert run.answer == "done"
    assert run.observations == [str(n) for n in range(8)]
    assert [e.kind for e in run.events].count("observation") == 8


def test_calls_with_effects_wait_for_their_turn() -> None:
    order: list[str] = []

    @tool(effects="safe")
    def look(x: int) -> str:
        """Read."""
        order.append(f"look {x}")
        return "seen"

    @tool
    def put(x: int) -> str:
        """Write."""
        order.append(f"put {x}")
        return "written"

    agent = Agent(name="a", goal="g", tools=[look, put], parallel_safe=True)
    run = run_inline(agent, "t", model=calls("look", "look", "put", "look"))
    assert run.answer == "done"
    assert sorted(order[:2]) == ["look 0", "look 1"]
    assert order[2:] == ["put 2", "look 3"]
    answered = [m["tool_call_id"] for m in run.messages if m["role"] == "tool"]
    asked = [c["id"] for c in run.messages[2]["tool_calls"]]
    assert answered == asked


def test_one_failure_beside_others_is_one_error() -> None:
    @tool(effects="safe")
    def look(x: int) -> int:
        """Fail for 1."""
        if x == 1:
            raise ValueError("one")
        return x

    agent = Agent(name="a", goal="g", tools=[look], parallel_safe=True)
    run = run_inline(agent, "t", model=calls("look", "look", "look"))
    assert run.observations[0] == "0"
    assert "ValueError: one" in run.observations[1]
    assert run.observations[2] == "2"


def test_max_calls_holds_within_one_reply() -> None:
    done: list[int] = []

    @tool(effects="safe", max_calls=2)
    def look(x: int) -> int:
        """Count."""
        done.append(x)
        return x

    agent = Agent(name="a", goal="g", tools=[look], parallel_safe=True, on_limit="stop")
    run = run_inline(agent, "t", model=calls("look", "look", "look"))
    assert sorted(done) == [0, 1]
    assert run.outcome is not None
    assert run.outcome.reason == "max_calls"


def test_each_call_reads_its_own_key() -> None:
    @tool(effects="safe")
    def look(x: int, ctx: Ctx) -> str:
        """Show the key."""
        return json.dumps([x, ctx.call_id, ctx.idempotency_key])

    agent = Agent(name="a", goal="g", tools=[look], parallel_safe=True, context=Ctx())
    run = run_inline(agent, "t", model=calls("look", "look"), job_id="j")
    ids = [c["id"] for c in run.messages[2]["tool_calls"]]
    assert [json.loads(o) for o in run.observations] == [
        [n, call_id, f"j:{call_id}"] for n, call_id in enumerate(ids)
    ]
