"""Budgets: the first that does not allow the next call, by name and figures. Rule 9."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.budget import (
    Limits,
    Price,
    Spent,
    before_model_call,
    before_sub_jobs,
    before_tool_call,
    capped,
    describe,
    shares,
)
from worker.state import RunState, Tokens


def state(**how: Any) -> RunState:
    return RunState(**how)


@pytest.mark.parametrize(
    ("steps", "limit", "granted", "spent"),
    [
        (0, 1, 0, None),
        (1, 1, 0, Spent("steps", 1, 1)),
        (1, 1, 1, None),
        (2, 1, 1, Spent("steps", 2, 2)),
        (99, None, 0, None),
    ],
)
def test_steps(steps: int, limit: int | None, granted: float, spent: Spent | None) -> None:
    given_state = state(steps=steps, granted={"steps": granted} if granted else {})
    assert before_model_call(given_state, Limits(steps=limit), 0) == spent


@pytest.mark.parametrize(
    ("used", "reserve", "spent"),
    [
        (Tokens(200, 50), 50, None),
        (Tokens(200, 50), 51, Spent("tokens", 250, 300)),
        (Tokens(300, 50), 0, Spent("tokens", 350, 300)),
        (Tokens(0, 300), 0, None),
    ],
)
def test_tokens_are_reserved_before_the_call(
    used: Tokens, reserve: int, spent: Spent | None
) -> None:
    assert before_model_call(state(usage=used), Limits(tokens=300), reserve) == spent


@pytest.mark.parametrize("check", ["model", "tool", "sub-jobs"])
def test_money_and_time_are_spent_when_they_are_reached(check: str) -> None:
    def ask(given_state: RunState, limits: Limits) -> Spent | None:
        if check == "model":
            return before_model_call(given_state, limits, 0)
        if check == "tool":
            return before_tool_call(given_state, limits, "look", None)
        return before_sub_jobs(given_state, limits)

    poor = state(usage=Tokens(cost_micros=500_000))
    assert ask(poor, Limits(cost=0.5)) == Spent("cost", 0.5, 0.5)
    assert ask(poor, Limits(cost=0.51)) is None
    poor.granted["cost"] = 1
    assert ask(poor, Limits(cost=0.5)) is None
    slow = state(active_ms=30_000)
    assert ask(slow, Limits(active_s=30)) == Spent("active_s", 30.0, 30)
    assert ask(slow, Limits(active_s=30.5)) is None


def test_steps_and_tokens_stop_models_and_not_tools() -> None:
    used_up = state(steps=9, usage=Tokens(900, 900))
    assert before_tool_call(used_up, Limits(steps=1, tokens=1), "look", None) is None


@pytest.mark.parametrize(
    ("done", "limit", "spent"),
    [(0, 1, None), (1, 1, Spent("calls:look", 1, 1)), (9, None, None)],
)
def test_calls_of_a_tool(done: int, limit: int | None, spent: Spent | None) -> None:
    given_state = state(calls={"look": done, "put": 99})
    assert before_tool_call(given_state, Limits(), "look", limit) == spent


def test_granted_calls_of_a_tool() -> None:
    given_state = state(calls={"look": 1}, granted={"calls:look": 1})
    assert before_tool_call(given_state, Limits(), "look", 1) is None


@pytest.mark.parametrize(
    ("spent", "text"),
    [
        (Spent("steps", 5, 5), "5 of 5 steps"),
        (Spent("tokens", 310, 300), "310 of 300 tokens"),
        (Spent("cost", 0.5, 0.25), "0.5 of 0.25 money"),
        (Spent("cost", 0.0000001, 0), "0 of 0 money"),
        (Spent("active_s", 10.25, 10), "10.25 of 10 seconds of work"),
        (Spent("calls:look", 2, 2), "2 of 2 calls of look"),
        (Spent("tokens", 1e9, 100), "1000000000 of 100 tokens"),
    ],
)
def test_a_budget_in_one_line(spent: Spent, text: str) -> None:
    assert describe(spent) == text


@pytest.mark.parametrize(
    ("tokens", "micros"),
    [
        (Tokens(1_000_000, 0), 2_000_000),
        (Tokens(0, 1_000_000), 8_000_000),
        (Tokens(1_000_000, 0, 1_000_000), 500_000),
        (Tokens(1, 0), 2),
        (Tokens(1, 0, 1), 1),
        (Tokens(), 0),
    ],
)
def test_a_price_is_for_a_million_tokens_and_rounded_up(tokens: Tokens, micros: int) -> None:
    assert Price(prompt=2, completion=8, cached=0.5).micros(tokens) == micros


def test_without_a_price_for_cached_tokens_they_cost_like_the_others() -> None:
    assert Price(prompt=2, completion=8).micros(Tokens(100, 0, 60)) == 200


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.floats(0, 100), st.floats(0, 100))
def test_a_price_is_never_too_low(prompt: int, completion: int, one: float, other: float) -> None:
    exact = prompt * one + completion * other
    micros = Price(prompt=one, completion=other).micros(Tokens(prompt, completion))
    assert exact <= micros <= exact + 1 + 1e-6 * exact


# --- sub-jobs ------------------------------------------------------------------------------


def test_a_sub_job_may_spend_its_cap_or_its_agents_limit_whichever_is_less() -> None:
    limits = Limits(steps=9, tokens=100, cost=None, active_s=5.0)
    merged = capped(limits, {"tokens": 60.5, "cost": 0.5, "active_s": 7.0})
    assert merged == Limits(steps=9, tokens=60, cost=0.5, active_s=5.0)


def test_what_is_left_is_shared_equally() -> None:
    used = state(usage=Tokens(40, 20, cost_micros=100_000), active_ms=1000, granted={"tokens": 20})
    found = shares(used, Limits(steps=5, tokens=100, cost=0.5), 2)
    assert found == {"tokens": 30.0, "cost": pytest.approx(0.2)}
    assert shares(used, Limits(), 3) == {}
