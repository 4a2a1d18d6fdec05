"""What a job is for all peers: the replies and the observations of ``worker.bench.load``.

Repeated here, because the peers' venv has no Stepkeeper; a test compares the two.
"""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]

PLAN = "Each step has a plan of about two hundred characters, as models write them. ".ljust(
    200, "."
)
OBSERVATION = "An observation of four hundred characters. ".ljust(400, ".")
ANSWER = "All steps are done."


def question(steps: int) -> Message:
    """The first message of a job; the model takes as many steps as it says."""
    return {"role": "user", "content": str(steps)}


def reply(messages: list[Message], steps: int) -> Message:
    """What the model answers, at once: it calls ``look`` so many times, then ends."""
    number = sum(message["role"] == "assistant" for message in messages) + 1
    return calling(number) if number <= steps else {"role": "assistant", "content": ANSWER}


def calling(number: int) -> Message:
    """The model's message at a step: a plan of 200 characters and one call."""
    call = {
        "id": call_id(number),
        "type": "function",
        "function": {"name": "look", "arguments": json.dumps({"page": number})},
    }
    return {"role": "assistant", "content": PLAN, "tool_calls": [call]}


def call_id(number: int) -> str:
    """Of the call at a step."""
    return f"call_{number:024d}"


def observed(call: Message, text: str) -> Message:
    """The tool's message that answers a call."""
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


def page_of(call: Message) -> int:
    """The argument of a call of ``look``."""
    return int(json.loads(call["function"]["arguments"])["page"])


def message_count(steps: int) -> int:
    """How many messages a job has at its end: question, two a step, answer."""
    return 2 * steps + 2


def messages_bytes(steps: int) -> int:
    """The compact JSON of a job's replies and observations."""
    calls = [calling(number) for number in range(1, steps + 1)]
    messages = calls + [observed(call["tool_calls"][0], OBSERVATION) for call in calls]
    return sum(len(json.dumps(message, separators=(",", ":"))) for message in messages)
