"""Budgets: what a job may spend, checked before each call, kept in the run state.

A budget's limit is the agent's own plus what people have granted. Names: ``steps``, ``tokens``,
``cost``, ``active_s`` and ``calls:TOOL``; and ``stored_bytes``, whose limit is the operator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from api_client.sizes import setting_name
from worker.state import RunState, Tokens


@dataclass(frozen=True, slots=True)
class Price:
    """Money for one million tokens, in any one currency."""

    prompt: float
    completion: float
    cached: float | None = None

    def micros(self, tokens: Tokens) -> int:
        """The price of these tokens, in millionths of the currency, rounded up."""
        cached_price = self.prompt if self.cached is None else self.cached
        fresh = tokens.prompt_tokens - tokens.cached_tokens
        exact = (
            fresh * self.prompt
            + tokens.cached_tokens * cached_price
            + tokens.completion_tokens * self.completion
        )
        return -int(-exact // 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """What an agent may spend on one job; ``None`` is no limit."""

    steps: int | None = None
    tokens: int | None = None
    cost: float | None = None
    active_s: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """A budget that does not allow the next call."""

    name: str
    spent: float
    limit: float


def before_model_call(state: RunState, limits: Limits, reserve_tokens: int) -> Spent | None:
    """The first budget that another model call would break.

    Args:
        reserve_tokens: what the call will at least cost, estimated from its input.
    """
    if spent := _over(state, "steps", state.steps + 1, limits.steps, state.steps):
        return spent
    used = state.usage.total
    return _over(state, "tokens", used + reserve_tokens, limits.tokens, used) or _time_and_money(
        state, limits
    )


def before_storing(state: RunState, quota: int) -> Spent | None:
    """The quota of stored bytes, if it is used up; 0 is none."""
    return _reached(state, STORED, state.stored, quota or None)


def before_tool_call(
    state: RunState, limits: Limits, tool: str, max_calls: int | None
) -> Spent | None:
    """The first budget that another call of ``tool`` would break."""
    done = state.calls.get(tool, 0)
    return _over(state, f"calls:{tool}", done + 1, max_calls, done) or _time_and_money(
        state, limits
    )


STORED = "stored_bytes"

SHARED = ("tokens", "cost", "active_s")
"""Budgets that a job shares with its sub-jobs; each counts its own steps."""


def capped(limits: Limits, caps: Mapping[str, float]) -> Limits:
    """An agent's limits for a job that may spend at most ``caps``."""
    merged = {name: _least(getattr(limits, name), caps.get(name)) for name in SHARED}
    tokens = merged["tokens"]
    return Limits(
        steps=limits.steps,
        tokens=None if tokens is None else int(tokens),
        cost=merged["cost"],
        active_s=merged["active_s"],
    )


def _least(one: float | None, other: float | None) -> float | None:
    given = [value for value in (one, other) if value is not None]
    return min(given, default=None)


def _spent(state: RunState) -> dict[str, float]:
    return {
        "tokens": state.usage.total,
        "cost": state.usage.cost_micros / 1e6,
        "active_s": state.active_ms / 1000,
    }


def shares(state: RunState, limits: Limits, count: int) -> dict[str, float]:
    """What each of ``count`` sub-jobs that start now may spend, by budget."""
    spent = _spent(state)
    left = {
        name: limit + state.granted.get(name, 0) - spent[name]
        for name in SHARED
        if (limit := getattr(limits, name)) is not None
    }
    return {name: value / max(1, count) for name, value in left.items()}


def before_sub_jobs(state: RunState, limits: Limits) -> Spent | None:
    """The first shared budget of which nothing is left for a sub-job."""
    return _reached(state, "tokens", state.usage.total, limits.tokens) or _time_and_money(
        state, limits
    )


def _time_and_money(state: RunState, limits: Limits) -> Spent | None:
    cost = state.usage.cost_micros / 1e6
    seconds = state.active_ms / 1000
    return _reached(state, "cost", cost, limits.cost) or _reached(
        state, "active_s", seconds, limits.active_s
    )


def _over(
    state: RunState, name: str, after: float, limit: float | None, spent: float
) -> Spent | None:
    if limit is None:
        return None
    allowed = limit + state.granted.get(name, 0)
    return Spent(name, spent, allowed) if after > allowed else None


def _reached(state: RunState, name: str, spent: float, limit: float | None) -> Spent | None:
    if limit is None:
        return None
    allowed = limit + state.granted.get(name, 0)
    return Spent(name, spent, allowed) if spent >= allowed else None


_UNITS = {
    "steps": "steps",
    "tokens": "tokens",
    "cost": "money",
    "active_s": "seconds of work",
    STORED: f"bytes of stored messages ({setting_name('job_quota_bytes')})",
}


def describe(spent: Spent) -> str:
    """One line about a budget: ``5 of 5 steps``."""
    figures = f"{_number(spent.spent)} of {_number(spent.limit)}"
    if spent.name.startswith("calls:"):
        return f"{figures} calls of {spent.name.removeprefix('calls:')}"
    return f"{figures} {_UNITS[spent.name]}"


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
