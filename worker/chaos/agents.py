"""The agent that chaos runs: a scripted model and tools that write to the ledger.

The model depends on the message list alone, so that a resumed job goes on at the right place; the
ledger is named by the environment variable ``STEPKEEPER_CHAOS_LEDGER``.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Sequence
from typing import Any

from api_client.contract import JobSpec
from worker.agent import Agent
from worker.chaos.ledger import Ledger
from worker.chaos.script import Script, next_step, read_tokens, token
from worker.context import ActionContext
from worker.errors import ToolFailed
from worker.models import FunctionModel, ModelError
from worker.tools import hand_to_human, tool

LEDGER = "STEPKEEPER_CHAOS_LEDGER"
AGENT = "chaos"


class World(ActionContext):
    """The outside world, as the tools reach it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger


def the_ledger() -> Ledger:
    """The ledger of this run."""
    return Ledger(os.environ[LEDGER])


def world(_spec: JobSpec) -> World:
    """Made for each slice."""
    return World(the_ledger())


def _take_time(what: str, most_s: float) -> None:
    """Take up to ``most_s`` seconds, always the same for the same call."""
    time.sleep(most_s * zlib.crc32(what.encode()) / 2**32)


def _act(tool_name: str, place: str, world: World) -> str:
    """Leave one effect. A kill may strike before it, and between it and the observation."""
    _take_time(f"before {place}", 0.12)
    world.ledger.apply(tool_name, place, world.idempotency_key)
    _take_time(f"after {place}", 0.12)
    return token(tool_name, place)


@tool(effects="safe")
def look(place: str, world: World) -> str:
    """Read something."""
    return _act("look", place, world)


@tool(effects="idempotent")
def put(place: str, world: World) -> str:
    """Write something under the idempotency key."""
    return _act("put", place, world)


@tool(effects="once")
def pay(place: str, world: World) -> str:
    """Do something that must not happen twice."""
    return _act("pay", place, world)


@tool(effects="safe")
def fail(place: str) -> str:
    """Fail."""
    raise ToolFailed(token("fail", place))


def speak(messages: Sequence[dict[str, Any]]) -> Any:
    """Say the next word of the job's script."""
    script = Script.read(str(messages[1]["content"]))
    step = next_step(messages)
    place = f"{script.number}.{step}"
    word = script.words[step - 1] if step <= len(script.words) else ""
    if word == "busy" and the_ledger().refuse_once(place):
        raise ModelError("too many requests", "retry", status=429)
    the_ledger().bill(place)
    _take_time(place, 0.3)
    if word == "break":
        raise ModelError("this model cannot go on", "fail", code="chaos_break")
    return script.message(step) if word else read_tokens(messages)


agent = Agent(
    name=AGENT,
    goal="Do what the words say.",
    tools=[look, put, pay, fail, hand_to_human],
    model=FunctionModel(speak, name="chaos"),
    context=world,
    parallel_safe=True,
    max_steps=100,
)
