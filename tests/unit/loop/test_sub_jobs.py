"""An agent as a tool of another: started once, waited for, paid for by the caller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api_client.contract import JobSpec, JobStatus, sub_job_id
from api_client.sizes import sizes
from worker import Agent, agent_tool, hand_to_human, run_inline, tool
from worker.agent import by_name
from worker.discovery import with_delegates
from worker.ends import Awaited, Ended
from worker.leases import Leases
from worker.models import FunctionModel, ScriptedModel
from worker.models.base import ModelReply, Usage
from worker.models.scripted import act, say
from worker.runner import Runner
from worker.store.memory import MemoryStore


def answering(text: str, tokens: int = 10) -> FunctionModel:
    def reply(_: list[dict[str, Any]]) -> ModelReply:
        return ModelReply({"role": "assistant", "content": text}, Usage(tokens, 0), "stop")

    return FunctionModel(reply)


def helper(text: str = "42", **options: Any) -> Agent:
    return Agent(name="helper", goal="Help.", model=answering(text), **options)


def boss(sub: Agent, *lines: Any, **options: Any) -> Agent:
    return Agent(
        name="boss",
        goal="Lead.",
        tools=[agent_tool(sub), hand_to_human, *options.pop("tools", ())],
        model=ScriptedModel(lines),
        **options,
    )


def test_the_answer_of_the_sub_job_is_the_observation() -> None:
    agent = boss(helper(), act("ask", ("helper", {"task": "What is it?"})), say("It is 42."))
    run = run_inline(agent, "t")
    assert run.answer == "It is 42."
    assert run.observations == ["42"]


def test_what_sub_jobs_spend_is_on_the_callers_account() -> None:
    lines = [act("ask", ("helper", {"task": "a"}), ("helper", {"task": "b"})), say("done")]
    run = run_inline(boss(helper(), *lines), "t")
    alone = run_inline(Agent(name="x", goal="Lead.", model=ScriptedModel([say("done")])), "t")
    assert run.view.usage.prompt_tokens >= 20
    assert run.view.usage.prompt_tokens > alone.view.usage.prompt_tokens


def test_sub_jobs_share_what_is_left_of_the_budget() -> None:
    sub = helper()
    agent = boss(
        sub,
        act("ask", ("helper", {"task": "a"}), ("helper", {"task": "b"})),
        say("done"),
        max_tokens=10_000,
    )
    store, runner = world(agent)
    store.create(JobSpec(job_id="j", agent="boss", input="t"))
    end = runner.run("j")
    assert isinstance(end, Awaited)
    specs = [store.read(job_id).spec for job_id in end.jobs]
    assert [spec.parent for spec in specs] == ["j", "j"]
    left = 10_000 - store.read("j").usage.total_tokens
    assert [spec.caps["tokens"] for spec in specs] == [left / 2, left / 2]


def test_a_task_with_half_a_surrogate_pair_is_cleaned_as_other_arguments_are() -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "helper", "arguments": '{"task": "a \\ud83d"}'},
    }
    echo = FunctionModel(lambda messages: f"You said: {messages[-1]['content']}")
    sub = Agent(name="helper", goal="Help.", model=echo)
    run = run_inline(boss(sub, {"content": None, "tool_calls": [call]}, say("done")), "t")
    assert (run.answer, run.observations) == ("done", ["You said: a \ufffd"])


def test_a_task_that_no_job_can_have_is_an_error_the_model_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = boss(helper(), act("ask", ("helper", {"task": "x" * 300})), say("went another way"))
    monkeypatch.setenv("STEPKEEPER_MAX_INPUT_BYTES", "200")
    sizes.cache_clear()
    try:
        run = run_inline(agent, "t")
    finally:
        monkeypatch.undo()
        sizes.cache_clear()
    assert run.answer == "went another way"
    assert "it was not started: input: 302 bytes" in run.observations[0]
    assert run.view.children == ()


def test_a_failed_sub_job_is_an_error_the_model_reads() -> None:
    broken = Agent(name="helper", goal="Help.", model=ScriptedModel([]), max_steps=1)
    agent = boss(broken, act("ask", ("helper", {"task": "a"})), say("went another way"))
    run = run_inline(agent, "t")
    assert run.answer == "went another way"
    assert "ended without an answer" in run.observations[0]


def test_a_cap_of_the_caller_holds_in_the_sub_job() -> None:
    sub = Agent(name="helper", goal="Help.", model=answering("x", tokens=500), on_limit="stop")
    agent = boss(
        sub, act("ask", ("helper", {"task": "a"})), say("done"), max_tokens=40, on_limit="stop"
    )
    run = run_inline(agent, "t")
    assert run.outcome is not None
    assert run.outcome.reason == "max_tokens"


def test_siblings_come_first_and_people_last() -> None:
    order: list[str] = []

    @tool
    def put(x: int) -> str:
        """Write."""
        order.append("put")
        return "written"

    def sub_model(_: list[dict[str, Any]]) -> str:
        order.append("helper")
        return "42"

    sub = replace(helper(), model=FunctionModel(sub_model))
    line = act(
        "all",
        ("hand_to_human", {"reason": "ok?"}),
        ("helper", {"task": "a"}),
        ("put", {"x": 1}),
    )
    agent = boss(sub, line, say("done"), tools=[put])

    def person(pause: Any) -> dict[str, Any]:
        order.append(pause.kind)
        return {"kind": "answer", "value": "yes"}

    run = run_inline(agent, "t", answers=person)
    assert run.answer == "done"
    assert order == ["put", "helper", "hand_to_human"]


def world(agent: Agent) -> tuple[MemoryStore, Runner]:
    store = MemoryStore()
    runner = Runner(
        store=store,
        agents=by_name(with_delegates([agent])),
        owner="n/b/1/",
        leases=Leases(store, 15_000),
        clock_ms=lambda: 0,
        default_model=lambda: ScriptedModel([]),
    )
    return store, runner


def test_a_crash_while_waiting_starts_nothing_twice() -> None:
    agent = boss(helper(), act("ask", ("helper", {"task": "a"})), say("done"))
    store, runner = world(agent)
    store.create(JobSpec(job_id="j", agent="boss", input="t"))
    child = sub_job_id("j", "call_1")
    assert runner.run("j") == Awaited(store.read("j").spec, (child,))
    assert store.wake("j") is not None  # a hint without any news, as after a lost one
    assert isinstance(runner.run("j"), Awaited)
    assert isinstance(runner.run(child), Ended)
    assert store.wake("j") is not None
    assert isinstance(runner.run("j"), Ended)
    assert store.read("j").outcome is not None
    assert [e.kind for e in store.events("j")].count("delegated") == 1


def test_a_child_that_ends_while_the_parent_still_runs_is_not_missed() -> None:
    agent = boss(helper(), act("ask", ("helper", {"task": "a"})), say("done"))
    store, runner = world(agent)
    store.create(JobSpec(job_id="j", agent="boss", input="t"))
    child = sub_job_id("j", "call_1")
    runner.hint = lambda spec: (runner.run(spec.job_id), store.wake("j"))
    end = runner.run("j")
    # The child ended between its start and the parent's look: the parent took its answer at once.
    assert isinstance(end, Ended)
    assert store.read(child).status is JobStatus.SUCCEEDED


def test_a_wake_between_look_and_wait_makes_the_parent_due_at_once() -> None:
    agent = boss(helper(), act("ask", ("helper", {"task": "a"})), say("done"))
    store, runner = world(agent)
    store.create(JobSpec(job_id="j", agent="boss", input="t"))
    original = store.settle

    def settle_after_wake(*args: Any) -> Any:
        store.wake("j")
        return original(*args)

    store.settle = settle_after_wake  # type: ignore[method-assign, assignment]
    assert isinstance(runner.run("j"), Awaited)
    store.settle = original  # type: ignore[method-assign]
    assert [hint.spec.job_id for hint in store.sweep(limit=9, grace_ms=1, cap_ms=1)] == ["j"]
