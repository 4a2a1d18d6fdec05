"""An agent that looks at an order, and asks before it pays money back; for tests of the desk."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

from worker.agent import Agent
from worker.models import FunctionModel, ModelError, Usage
from worker.models.base import ModelReply
from worker.models.scripted import act, say
from worker.tools import hand_to_human, tool


class Way(StrEnum):
    """How money goes back."""

    CARD = "card"
    VOUCHER = "voucher"


@tool(effects="safe")
def order_status(order_id: str) -> str:
    """Status, price and date of an order.

    Args:
        order_id: the order's number.
    """
    return json.dumps({"order": order_id, "status": "delivered", "price": 59.9})


@tool(effects="once", approval=True)
def refund(order_id: str, amount: float, way: Way = Way.CARD, tell_customer: bool = True) -> str:
    """Pay money back.

    Args:
        order_id: the order's number.
        amount: in euros.
        way: how it goes back.
        tell_customer: whether the customer gets a mail.
    """
    return f"refunded {amount:.2f} EUR for {order_id} by {way}"


EVIL = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def reply(messages: list[dict[str, Any]]) -> ModelReply:
    """The next reply, by the words of the task and the observations so far."""
    task = str(messages[1]["content"])
    seen = [m["content"] for m in messages if m["role"] == "tool"]
    line = _line(task, seen)
    line.setdefault("role", "assistant")
    return ModelReply(line, usage=Usage(420 + 60 * len(seen), 38), finish_reason="stop")


def _line(task: str, seen: list[str]) -> dict[str, Any]:
    if "evil" in task:
        return _evil(seen)
    if "credit" in task:
        raise ModelError("the account has no credit", "pause", code="insufficient_quota")
    if not seen:
        plan = "First I look at the order."
        return act(plan, ("order_status", {"order_id": "1187"}, "call_1"))
    if len(seen) == 1 and "ask" in task:
        question = "The customer wants 20 € for the long wait. May I promise that?"
        return act("This is not mine to decide.", ("hand_to_human", {"reason": question}, "call_2"))
    if len(seen) == 1:
        plan = "It was delivered, and the headphones are broken. I refund the whole price."
        return act(plan, ("refund", {"order_id": "1187", "amount": 59.9}, "call_2"))
    return say(f"Done: {seen[-1]}")


def _evil(seen: list[str]) -> dict[str, Any]:
    if not seen:
        return act(EVIL, ("order_status", {"order_id": EVIL}, "call_1"))
    if len(seen) == 1:
        return act(EVIL, ("hand_to_human", {"reason": EVIL}, "call_2"))
    return say(EVIL)


refunds = Agent(
    name="refunds",
    goal="You are the support agent of an online shop.",
    tools=[order_status, refund, hand_to_human],
    model=FunctionModel(reply),
    max_steps=10,
    max_tokens=20_000,
)
shop = Agent(
    name="shop",
    goal="You are the support agent of an online shop.",
    tools=[order_status, refund, hand_to_human],
    model=FunctionModel(reply),
)
