"""Tools for a process of their own: another process imports this module."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from worker.context import ActionContext
from worker.errors import PauseRequested, ToolFailed, ToolRetry
from worker.tools import tool


@tool(isolate=True)
def pid_and_sum(a: int, b: int = 2) -> dict[str, int]:
    print("this goes to standard error")
    return {"pid": os.getpid(), "sum": a + b}


@tool(isolate=True)
async def later(x: int) -> int:
    await asyncio.sleep(0)
    return x


@tool(isolate=True)
def keyed(ctx: ActionContext) -> list[Any]:
    return [ctx.job_id, ctx.call_id, ctx.step, ctx.attempt, ctx.idempotency_key]


@tool(isolate=True)
def raises(kind: str) -> None:
    errors = {
        "value": ValueError("postgres://svc:s3cret@db/prod"),
        "retry": ToolRetry("again"),
        "failed": ToolFailed("no use"),
        "pause": PauseRequested("sure?", {"sum": 5}),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "memory": MemoryError(),
    }
    raise errors[kind]


@tool(isolate=True)
def dies(code: int) -> None:
    os._exit(code)


@tool(isolate=True)
def killed(signal: int) -> None:
    os.kill(os.getpid(), signal)


@tool(isolate=True)
def large(size: int) -> str:
    return "x" * size


@tool(isolate=True)
def unwritable() -> Any:
    return object()


@tool(isolate=True, timeout=6.0)
def hangs(notes: str) -> None:
    """Starts another process, notes both ids, and never ends."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(notes).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)


def given_schema(**arguments: Any) -> dict[str, Any]:
    return arguments


@tool(isolate=True)
def reads_input() -> str:
    return sys.stdin.read() or "nothing there"
