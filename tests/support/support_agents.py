"""An agent of a shop's support, which does what the words of its task ask for.

"refund" asks a person first, "busy" finds its model overloaded for an hour, "closed" finds it gone,
anything else looks up the order. A last word ``@NAME`` names a gate for each of its model calls.
"""

from __future__ import annotations

from typing import Any

from tests.support.agents import gate, note, tag_of
from worker.agent import Agent
from worker.budget import Price
from worker.models import FunctionModel, ModelError
from worker.models.base import ModelReply, Usage
from worker.models.scripted import act, say
from worker.tools import hand_to_human, tool


@tool(effects="safe")
def order_status(order_id: str) -> str:
    """Status of an order."""
    return f"{order_id}: delivered on 26 October"


def reply(messages: list[dict[str, Any]]) -> ModelReply:
    """The next reply; each costs 400 tokens of input and 30 of output."""
    task = str(messages[1]["content"])
    step = sum(message["role"] == "assistant" for message in messages) + 1
    note("model", task=task, step=step)
    gate(f"model-{tag_of(task)}-{step}")
    if "busy" in task:
        raise ModelError("too many requests", "retry", retry_after=3600, status=429)
    if "closed" in task:
        raise ModelError("the model does not exist", "fail", code="model_not_found")
    if step == 1:
        line = act("I look at the order.", ("order_status", {"order_id": "1187"}, "c1"))
    elif step == 2 and "refund" in task:
        line = act("I must ask.", ("hand_to_human", {"reason": "May I refund 59.90 EUR?"}, "c2"))
    else:
        line = say("It was delivered on 26 October.")
    line.setdefault("role", "assistant")
    return ModelReply(line, usage=Usage(400, 30), finish_reason="stop")


support = Agent(
    name="support",
    goal="You are the support agent of an online shop.",
    tools=[order_status, hand_to_human],
    model=FunctionModel(reply, name="scripted"),
    price=Price(1.0, 2.0),
)
