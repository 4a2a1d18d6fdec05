"""The agents that the workers of a benchmark run.

Their models depend on the message list alone, so that one instance serves many jobs at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from worker.agent import Agent
from worker.bench.load import (
    ASKING,
    SLOW,
    STEPPING,
    WAITING,
    answer,
    look,
    number_of,
    question,
    reply_message,
    step_reply,
)
from worker.models.base import Message, ModelReply, ModelRequest
from worker.tools import hand_to_human

SLOW_STEP_S = 0.02


class SteppingModel:
    """Takes as many steps as the task says, each at once or after some seconds, then answers."""

    name = "stepping"

    def __init__(self, step_s: float = 0.0) -> None:
        self._step_s = step_s

    def reply(self, request: ModelRequest) -> ModelReply:
        """The next reply."""
        if self._step_s:
            time.sleep(self._step_s)
        number = replies(request.messages) + 1
        steps = int(str(request.messages[1]["content"]))
        return step_reply(reply_message(number)) if number <= steps else answer()

    async def areply(self, request: ModelRequest) -> ModelReply:
        """The same; only for models that answer at once."""
        return self.reply(request)


class AskingModel:
    """Asks a person first, then answers."""

    name = "asking"

    def reply(self, request: ModelRequest) -> ModelReply:
        """The next reply."""
        return answer() if replies(request.messages) else step_reply(question())


def replies(messages: Sequence[Message]) -> int:
    """How many replies are in the message list; the last one tells, however long the list is."""
    for message in reversed(messages):
        if message["role"] == "assistant":
            return number_of(message)
    return 0


stepping = Agent(STEPPING, "Work.", [look], SteppingModel(), max_steps=None, max_repeats=None)
slow = Agent(SLOW, "Work.", [look], SteppingModel(SLOW_STEP_S), max_steps=None, max_repeats=None)
asking = Agent(ASKING, "Ask.", [hand_to_human], AskingModel())
waiting = Agent(WAITING, "Work.", [look])
"""Asks the model that the environment names."""
