"""Jobs of so many steps: an instant model, and the tool that it calls at each of them."""

from __future__ import annotations

import time
from typing import Any

from worker.agent import Agent
from worker.bench.counting import CountingConnection
from worker.models.base import Message, ModelReply, ModelRequest, Usage
from worker.tools import tool
from worker.tools.base import Effects

PLAN = "Each step has a plan of about two hundred characters, as models write them. ".ljust(
    200, "."
)
OBSERVATION = "An observation of four hundred characters. ".ljust(400, ".")
ANSWER = "All steps are done."
AGENT = "bench"
TASK = "Take so many steps."


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
        self._steps = steps
        self.asked: list[float] = []
        self.sent: list[int] = []

    def reply(self, request: ModelRequest) -> ModelReply:  # noqa: ARG002 - it has its own count
        """The next reply."""
        self.asked.append(time.perf_counter())
        self.sent.append(CountingConnection.sent)
        number = len(self.asked)
        if number > self._steps:
            return ModelReply({"role": "assistant", "content": ANSWER}, Usage(1000, 5), "stop")
        return ModelReply(reply_message(number), Usage(1000, 60), "tool_calls")


def reply_message(number: int) -> Message:
    """The model's message at a step: a plan of 200 characters and one call."""
    call = {
        "id": f"call_{number:024d}",
        "type": "function",
        "function": {"name": "look", "arguments": f'{{"page": {number}}}'},
    }
    return {"role": "assistant", "content": PLAN, "tool_calls": [call]}


def observation_message(number: int) -> Message:
    """The tool's message at a step: 400 characters."""
    return {"role": "tool", "tool_call_id": f"call_{number:024d}", "content": OBSERVATION}


def stepping_agent(model: Any, effects: Effects) -> Agent:
    """An agent that may take any number of steps."""

    @tool(effects=effects)
    def look(page: int) -> str:  # noqa: ARG001 - only the text counts
        """Read a page."""
        return OBSERVATION

    return Agent(
        name=AGENT, goal="Work.", tools=[look], model=model, max_steps=None, max_repeats=None
    )
