"""Agents that do the same each time."""

from __future__ import annotations

from typing import Any

from worker.agent import Agent
from worker.budget import Price
from worker.models import ModelError, ScriptedModel
from worker.models.base import ModelReply, Usage
from worker.tools import hand_to_human, tool

SECRET = "tr0ub4dor&3"


@tool(effects="safe")
def look(what: str) -> str:
    """Look something up."""
    return f"{what}: found, but it is {SECRET}"


@tool(effects="safe")
def fail(what: str) -> str:
    """Never works."""
    raise ValueError(f"no {what}")


def reply(message: dict[str, Any], tokens: tuple[int, int] = (100, 10)) -> ModelReply:
    """A reply with a count of tokens."""
    return ModelReply(
        {"role": "assistant", "content": None, **message},
        usage=Usage(*tokens, cached_tokens=7),
        finish_reason="tool_calls" if message.get("tool_calls") else "stop",
        model="scripted-2026",
    )


def act(*calls: tuple[str, str]) -> dict[str, Any]:
    """A message that calls tools, each with its one argument as JSON."""
    return {
        "content": "I will.",
        "tool_calls": [
            {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for number, (name, arguments) in enumerate(calls)
        ],
    }


def agent(*lines: Any, **fields: Any) -> Agent:
    """An agent whose model says these lines, one after the other."""
    return Agent(
        name="clerk",
        goal="Help.",
        tools=[look, fail, hand_to_human],
        model=ScriptedModel(list(lines), name="script"),
        price=Price(1.0, 2.0),
        **fields,
    )


BUSY = ModelError("busy, says https://u:hunter22@api.example", "retry", status=429)
