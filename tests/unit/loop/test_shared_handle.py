"""Three calls of one reply on one database handle, one of which fails (D10)."""

from __future__ import annotations

import sqlite3

import pytest

from api_client.contract import JobSpec
from worker import ActionContext, Agent, Price, run_inline, tool
from worker.errors import AgentDefinitionError
from worker.models.base import ModelError, ModelReply, Usage
from worker.models.function import FunctionModel
from worker.models.scripted import act, say


class Shop(ActionContext):
    """One connection for all calls of a job."""

    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.execute("create table orders (id integer primary key)")
        self.closed = False

    def close(self) -> None:
        """Called when the slice is over."""
        self.closed = True


OPENED: list[Shop] = []


def open_shop(_spec: JobSpec) -> Shop:
    """A handle for each slice."""
    OPENED.append(Shop())
    return OPENED[-1]


@tool
def order(number: int, shop: Shop) -> str:
    """Place an order; fails for an order that exists, and rolls back."""
    with shop.database:
        shop.database.execute("insert into orders values (?)", [number])
    total = shop.database.execute("select count(*) from orders").fetchone()[0]
    return f"{number}, {total} in all"


def test_d10_calls_take_turns_and_one_failure_leaves_the_others_intact() -> None:
    agent = Agent(name="a", goal="g", tools=[order], context=open_shop)
    calls = act("order", *(("order", {"number": n}) for n in (1, 1, 2)))
    run = run_inline(agent, "t", model=[calls, say("done")])
    assert run.observations[0] == "1, 1 in all"
    assert "IntegrityError" in run.observations[1]
    assert run.observations[2] == "2, 2 in all"
    assert OPENED[-1].closed


def test_f9_a_money_limit_without_a_price_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match=r"max_cost=1\.0 needs price"):
        Agent(name="a", goal="g", max_cost=1.0)


def test_f9_all_reported_usage_counts_over_failures_and_is_checked_before_each_call() -> None:
    asked: list[int] = []

    def model(messages: list[dict[str, object]]) -> ModelReply:
        asked.append(len(messages))
        if len(asked) <= 3:
            raise ModelError("busy", "retry")
        step = len(asked)
        call = act("go", ("order", {"number": step}, f"c{step}"))
        return ModelReply(call, Usage(300_000, 100_000), "tool_calls")

    agent = Agent(
        name="a",
        goal="g",
        tools=[order],
        context=open_shop,
        model=FunctionModel(model),
        price=Price(prompt=1.0, completion=2.0),
        max_cost=1.0,
        max_steps=None,
        on_limit="stop",
    )
    run = run_inline(agent, "t")
    assert run.outcome is not None
    assert run.outcome.reason == "max_cost"
    assert len(asked) == 3 + 2, "half a unit a reply: the third would go over"
    assert run.view.usage.cost == pytest.approx(1.0)
