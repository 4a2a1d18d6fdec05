"""Agents whose jobs wait for people, for the tests of the human desk with real workers."""

from __future__ import annotations

from typing import Any

from celery import signature

from api_client.contract import Answer
from tests.support.agents import note
from worker.agent import Agent
from worker.models import FunctionModel
from worker.models.scripted import act
from worker.pauses import Escalate
from worker.tools import hand_to_human, tool

DAY = 24 * 3600


@tool(approval=True, effects="once")
def refund(euro: int) -> str:
    """Pay back."""
    note("refund", euro=euro)
    return f"{euro} € paid"


def reply(messages: list[dict[str, Any]]) -> Any:
    """Do what the task says first, then answer with what was observed."""
    task = str(messages[1]["content"])
    note("model", tag=task, step=sum(m["role"] == "assistant" for m in messages) + 1)
    if len(messages) > 2:
        return str(messages[-1]["content"])
    if task.startswith("refund"):
        return act("", ("refund", {"euro": 50}))
    return act("", ("hand_to_human", {"reason": f"What about {task}?"}))


def _agent(name: str, **options: Any) -> Agent:
    tools: list[Any] = [refund, hand_to_human]
    return Agent(name=name, goal="Ask.", tools=tools, model=FunctionModel(reply), **options)


asks = _agent("asks")
patient = _agent(
    "patient",
    labels=("desk",),
    pause_deadline_s=DAY,
    on_deadline=Escalate(("leads",), within_s=3 * DAY, then=Answer(value="too late")),
)
hasty = _agent("hasty", pause_deadline_s=DAY, on_deadline=Answer(value="nobody was there"))
loud = _agent(
    "loud",
    on_pause=signature("lab.note", kwargs={"where": "pause"}),
    on_end=signature("lab.note", kwargs={"where": "end"}),
)
