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
from tests.support.crashes import maybe_die
from worker.agent import Agent
from worker.context import ActionContext
from worker.models import FunctionModel, ModelError
from worker.tools import hand_to_human, tool

LEDGER = "TEST_LEDGER"
BUSY_S = 0.1
PATIENCE_S = 300 + float(os.environ.get("TEST_LONG_CALL_S", "0"))
GATES = "TEST_GATES"


def note(kind: str, **data: Any) -> None:
    """Append one line to the ledger; short appends are atomic."""
    path = os.environ.get(LEDGER)
    if path:
        line = json.dumps({"kind": kind, "pid": os.getpid(), "at": time.time(), **data})
        with Path(path).open("a") as file:
            file.write(line + "\n")


def gate(name: str) -> None:
    """Wait while the test holds the gate shut by a file of this name, and note that."""
    shut = Path(os.environ.get(GATES, "/nonexistent"), name)
    if not shut.exists():
        return
    note("gate", name=name)
    pause = threading.Event()
    while shut.exists():
        pause.wait(0.01)


def tag_of(text: str) -> str:
    """The job's tag: the last word of its task, if that begins with ``@``."""
    last = text.split()[-1]
    return last[1:] if last.startswith("@") else ""


class Ctx(ActionContext):
    """What the ledger says of the job."""

    def __init__(self, job: str, tag: str) -> None:
        self.job = job
        self.tag = tag


def context(spec: JobSpec) -> Ctx:
    """Made for each slice."""
    return Ctx(spec.job_id, tag_of(str(spec.input)))


def _effect(name: str, x: int, ctx: Ctx) -> str:
    maybe_die("before", "effect", ctx.job)
    note(name, job=ctx.job, tag=ctx.tag, x=x, key=ctx.idempotency_key, attempt=ctx.attempt)
    maybe_die("after", "effect", ctx.job)
    gate(f"{name}-{ctx.tag}-{x}")
    return f"{name} {x}"


@tool(effects="safe")
def look(x: int, ctx: Ctx) -> str:
    """Read something."""
    return _effect("look", x, ctx)


@tool(effects="idempotent", timeout=PATIENCE_S)
def put(x: int, ctx: Ctx) -> str:
    """Write something that may be written again."""
    return _effect("put", x, ctx)


@tool(effects="once")
def pay(x: int, ctx: Ctx) -> str:
    """Do something that must not happen twice."""
    return _effect("pay", x, ctx)


@tool(effects="safe")
def die(x: int, ctx: Ctx) -> str:
    """End the process that runs it, always: without a word, or by SIGKILL for even numbers."""
    note("die", job=ctx.job, tag=ctx.tag, x=x, attempt=ctx.attempt)
    if x % 2:
        os._exit(1)
    os.kill(os.getpid(), 9)
    return "still here"


def first_time(name: str) -> bool:
    """Whether nobody has asked this before, in whatever process."""
    try:
        Path(os.environ[GATES], f"{name}.seen").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


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

    Words: ``look``, ``put``, ``pay``, ``die`` (one call each, joined by ``+`` for several in one
    reply), ``ask`` (hand_to_human), ``fail`` (a model error for a person), ``refuse`` (a model
    error that ends the job), ``busy`` (status 429 at the first call, then ``look``). A last word
    ``@NAME`` is the job's tag.
    """
    task = messages[1]["content"]
    tag = tag_of(task)
    words = [word for word in task.split() if not word.startswith("@")]
    step = sum(m["role"] == "assistant" for m in messages) + 1
    note("model", tag=tag, step=step)
    maybe_die("during", "model", tag)
    gate(f"model-{tag}-{step}")
    if step > len(words):
        return "; ".join(m["content"] for m in messages if m["role"] == "tool") or "done"
    word = words[step - 1]
    if word == "fail":
        raise ModelError("the account has no credit", "pause", code="insufficient_quota")
    if word == "refuse":
        raise ModelError("the model does not exist", "fail", code="model_not_found")
    if word == "busy":
        if first_time(f"busy-{tag}-{step}"):
            raise ModelError("too many requests", "retry", retry_after=BUSY_S, status=429)
        word = "look"
    if word == "ask":
        return _act(step, ("hand_to_human", {"reason": f"question {step}"}))
    return _act(step, *((name, {"x": step}) for name in word.split("+")))


worker_agent = Agent(
    name="plan",
    goal="Do what the words say.",
    tools=[look, put, pay, die, hand_to_human],
    model=FunctionModel(plan),
    context=context,
    max_steps=100,
)
