"""Jobs of so many steps: an instant model, and the tool that it calls at each of them."""

from __future__ import annotations

import json
import time
from typing import Any

from worker.agent import Agent
from worker.bench.counting import CountingConnection
from worker.models.base import Message, ModelReply, ModelRequest, Usage
from worker.tools import build_tool, tool
from worker.tools.base import Effects

PLAN = "Each step has a plan of about two hundred characters, as models write them. ".ljust(
    200, "."
)
OBSERVATION = "An observation of four hundred characters. ".ljust(400, ".")
ANSWER = "All steps are done."
TASK = "Take so many steps."

STEPPING = "bench-steps"
SLOW = "bench-slow"
ASKING = "bench-asks"
WAITING = "bench-waits"


@tool(effects="safe")
def look(page: int) -> str:  # noqa: ARG001 - only the text counts
    """Read a page."""
    return OBSERVATION


class InstantModel:
    """Calls ``look`` so many times and then answers, at once; notes when it was asked.

    Args:
        steps: tool calls before the answer.

    Attributes:
        asked: the moment of each request, in seconds of ``time.perf_counter``.
        sent: round trips that had been counted by then.
    """

    name = "instant"

    def __init__(self, steps: int) -> None:
        replies = [step_reply(reply_message(number + 1)) for number in range(steps)]
        self._replies = [*replies, answer()]
        self.asked: list[float] = []
        self.sent: list[int] = []

    def reply(self, request: ModelRequest) -> ModelReply:  # noqa: ARG002 - it has its own count
        """The next reply."""
        self.asked.append(time.perf_counter())
        self.sent.append(CountingConnection.sent)
        return self._replies[min(len(self.asked), len(self._replies)) - 1]


def answer() -> ModelReply:
    """The last reply."""
    return ModelReply({"role": "assistant", "content": ANSWER}, Usage(1000, 5), "stop")


def step_reply(message: Message) -> ModelReply:
    """A reply that calls a tool."""
    return ModelReply(message, Usage(1000, 60), "tool_calls")


def reply_message(number: int) -> Message:
    """The model's message at a step: a plan of 200 characters and one call."""
    return calling(number, "look", {"page": number})


def question() -> Message:
    """The model's message that asks a person."""
    return calling(1, "hand_to_human", {"reason": "May the order be refunded?"})


def calling(number: int, tool_name: str, arguments: dict[str, Any]) -> Message:
    """A message of the model with a plan of 200 characters and one call."""
    call = {
        "id": f"call_{number:024d}",
        "type": "function",
        "function": {"name": tool_name, "arguments": json.dumps(arguments)},
    }
    return {"role": "assistant", "content": PLAN, "tool_calls": [call]}


def number_of(message: Message) -> int:
    """The number of a reply that calls something."""
    return int(message["tool_calls"][0]["id"].removeprefix("call_"))


def observation_message(number: int) -> Message:
    """The tool's message at a step: 400 characters."""
    return {"role": "tool", "tool_call_id": f"call_{number:024d}", "content": OBSERVATION}


def stepping_agent(model: Any, effects: Effects) -> Agent:
    """An agent that may take any number of steps."""
    reading = build_tool(look, effects=effects)
    return Agent(STEPPING, "Work.", [reading], model, max_steps=None, max_repeats=None)
