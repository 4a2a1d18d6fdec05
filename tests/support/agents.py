"""Agents whose every effect is written to a ledger, for tests with real workers.

The models are functions of the message list, so that a resumed job goes on at the right place.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from api_client.contract import JobSpec
from worker.agent import Agent
from worker.context import ActionContext
from worker.models import FunctionModel, ModelError
from worker.tools import hand_to_human, tool

LEDGER = "TEST_LEDGER"
GATES = "TEST_GATES"


def note(kind: str, **data: Any) -> None:
    """Append one line to the ledger; short appends are atomic."""
    path = os.environ.get(LEDGER)
    if path:
        line = json.dumps({"kind": kind, "pid": os.getpid(), "at": time.time(), **data})
        with Path(path).open("a") as file:
            file.write(line + "\n")


def gate(name: str) -> None:
    """Wait until the test opens the gate by making the file of this name."""
    folder = os.environ.get(GATES)
    if not folder:
        return
    note("gate", name=name)
    pause = threading.Event()
    while not Path(folder, name).exists():
        pause.wait(0.02)


class Ctx(ActionContext):
    """The job's id, for the ledger."""

    def __init__(self, job: str) -> None:
        self.job = job


def context(spec: JobSpec) -> Ctx:
    """Made for each slice."""
    return Ctx(spec.job_id)


def _effect(name: str, x: int, ctx: Ctx) -> str:
    note(name, job=ctx.job, x=x, key=ctx.idempotency_key, attempt=ctx.attempt)
    gate(f"{name}-{ctx.job}-{x}")
    return f"{name} {x}"


@tool(effects="safe")
def look(x: int, ctx: Ctx) -> str:
    """Read something."""
    return _effect("look", x, ctx)


@tool(effects="idempotent")
def put(x: int, ctx: Ctx) -> str:
    """Write something that may be written again."""
    return _effect("put", x, ctx)


@tool(effects="once")
def pay(x: int, ctx: Ctx) -> str:
    """Do something that must not happen twice."""
    return _effect("pay", x, ctx)


def _call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{number}", "type": "function", "function": function}


def _act(step: int, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": f"step {step}",
        "tool_calls": [_call(10 * step + i, *call) for i, call in enumerate(calls)],
    }


def plan(messages: list[dict[str, Any]]) -> Any:
    """Follow the words of the task, one step a word, then answer with all observations.

    Words: ``look``, ``put``, ``pay`` (one call each, joined by ``+`` for several in one reply),
    ``ask`` (hand_to_human), ``fail`` (a model error for a person), ``busy`` (a 429, once).
    """
    words = messages[1]["content"].split()
    step = sum(m["role"] == "assistant" for m in messages)
    note("model", task=messages[1]["content"], step=step + 1)
    gate(f"model-{step + 1}")
    if step >= len(words):
        return "; ".join(m["content"] for m in messages if m["role"] == "tool") or "done"
    word = words[step]
    if word == "fail":
        raise ModelError("the account has no credit", "pause", code="insufficient_quota")
    if word == "ask":
        return _act(step + 1, ("hand_to_human", {"reason": f"question {step + 1}"}))
    return _act(step + 1, *((name, {"x": step + 1}) for name in word.split("+")))


worker_agent = Agent(
    name="plan",
    goal="Do what the words say.",
    tools=[look, put, pay, hand_to_human],
    model=FunctionModel(plan),
    context=context,
    max_steps=100,
)
