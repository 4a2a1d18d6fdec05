"""Budgets hold across pauses, crashes and slices, and nothing is spent behind them. Rule 9."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import Extend
from tests.unit.loop.bench import Bench
from tests.unit.loop.driver import MODEL_MS, TOOL_MS, Driver, Script, drive
from worker.budget import Price
from worker.effects import Failed, Finished, Paused
from worker.models import ModelReply
from worker.models.base import Usage
from worker.models.scripted import act, say


def step(number: int, usage: Usage | None = None) -> ModelReply:
    return ModelReply(act("", ("look", {"x": number})), usage or Usage(100, 20))


STEPS = [step(n) for n in range(20)]


@pytest.mark.parametrize(
    ("how", "reason", "text", "replies"),
    [
        ({"max_steps": 3}, "max_steps", "3 of 3 steps", 3),
        ({"max_tokens": 365}, "max_tokens", "360 of 365 tokens", 3),
        (
            {"max_cost": 0.0005, "price": Price(prompt=1, completion=5)},
            "max_cost",
            "0.0006 of 0.0005 money",
            3,
        ),
        ({"max_active_s": 0.03}, "max_active_s", "0.031 of 0.03 seconds of work", 3),
    ],
    ids=["steps", "tokens", "money", "time"],
)
def test_a_spent_budget_ends_the_job_by_its_name(
    bench: Bench, how: dict[str, Any], reason: str, text: str, replies: int
) -> None:
    driver, end = drive(bench.agent(on_limit="stop", **how), STEPS)
    assert isinstance(end, Failed)
    assert (end.reason, end.text) == (reason, f"stopped: {text} without an answer")
    assert driver.state().steps == replies


def test_time_is_what_models_and_tools_took(bench: Bench) -> None:
    driver, _ = drive(bench.agent(), [step(1), step(2), "done"])
    assert driver.state().active_ms == 3 * MODEL_MS + 2 * TOOL_MS


def test_waiting_for_a_person_is_not_active_time(bench: Bench) -> None:
    script = [act("", ("hand_to_human", {"reason": "?"})), "done"]
    driver, _ = drive(bench.agent(), script)
    assert driver.state().active_ms == MODEL_MS


def test_a_call_over_its_tools_limit_is_not_run(bench: Bench) -> None:
    calls = [("rare", {"x": n}) for n in range(4)]
    driver, end = drive(bench.agent(), [act("", *calls), "done"])
    assert isinstance(end, Paused)
    assert end.pause.details == {"budget": "calls:rare", "spent": 2, "limit": 2}
    assert bench.done == ["rare 0", "rare 1"]
    driver.signal = Extend(amount=2)
    assert isinstance(driver.go(), Finished)
    assert bench.done == [f"rare {n}" for n in range(4)]


def test_a_call_over_its_tools_limit_stops_the_job_by_name(bench: Bench) -> None:
    script = [act("", ("rare", {"x": n})) for n in range(4)]
    _, end = drive(bench.agent(on_limit="stop"), script)
    assert isinstance(end, Failed)
    assert end.reason == "max_calls"
    assert "2 of 2 calls of rare" in end.text


def test_money_and_time_are_looked_at_before_each_tool_too(bench: Bench) -> None:
    price = Price(prompt=1, completion=5)
    agent = bench.agent(max_cost=0.0002, price=price, on_limit="stop")
    _, end = drive(agent, STEPS)
    assert isinstance(end, Failed)
    assert bench.done == []


def test_the_answer_of_the_last_step_counts(bench: Bench) -> None:
    """A budget that is spent by the reply that brings the answer has been enough."""
    _, end = drive(bench.agent(max_steps=2, max_tokens=300), [step(1), "42"])
    assert isinstance(end, Finished)


@pytest.mark.parametrize("every", [2, 3])
def test_budgets_hold_across_crashes(bench: Bench, every: int) -> None:
    """What was committed stays counted; only what died uncommitted is paid for again."""
    deaths = iter(range(10**6))
    driver = Driver(bench.agent(max_steps=4, on_limit="stop"), Script(STEPS))
    driver.crash = lambda number: number % 3 == 2 and next(deaths) % every != 0
    end = driver.go()
    assert isinstance(end, Failed)
    assert end.reason == "max_steps"
    assert driver.state().steps == 4
    assert driver.state().usage.prompt_tokens == 400
    assert len(driver.observations) == 4


def test_tokens_and_money_of_each_reply_are_in_the_trace(bench: Bench) -> None:
    agent = bench.agent(price=Price(prompt=2, completion=4, cached=0.5))
    last = ModelReply(say("42"), Usage(100, 10, cached_tokens=60))
    driver, end = drive(agent, [step(1), last])
    assert isinstance(end, Finished)
    replies = [data for kind, data in driver.events if "in" in data]
    assert [(data["in"], data["out"]) for data in replies] == [(100, 20), (100, 10)]
    assert [round(data["cost"] * 1e6) for data in replies] == [280, 150]
    usage = driver.state().usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (200, 30)
    assert (usage.cached_tokens, usage.cost_micros) == (60, 430)


def test_more_cached_than_sent_is_not_believed(bench: Bench) -> None:
    agent = bench.agent(price=Price(prompt=2, completion=4, cached=0.5))
    driver, _ = drive(agent, [ModelReply(say("42"), Usage(10, 0, cached_tokens=60))])
    assert driver.state().usage.cached_tokens == 10
    assert driver.state().usage.cost_micros == 5


def test_rule_4_the_run_state_does_not_grow_with_the_job(bench: Bench) -> None:
    sizes: list[int] = []
    script = [step(n) for n in range(200)]
    driver = Driver(bench.agent(max_steps=None), Script([*script, "done"]))

    def measure(_: int) -> bool:
        sizes.append(len(driver.run or ""))
        return False

    driver.crash = measure
    assert isinstance(driver.go(), Finished)
    assert max(sizes) < 200
    assert max(len(commit) for commit in driver.commits) == 3  # the goal, the task, the first reply
