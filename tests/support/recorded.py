"""Traces of jobs that really ran, in memory, for tests that print them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from api_client.contract import Event, JobView
from worker.agent import Agent
from worker.inline import InlineRun, run_inline
from worker.models import ScriptedModel, Usage
from worker.rendering import TraceSource, make_console, print_trace
from worker.tools import hand_to_human, tool


class Recorded:
    """A finished run as a ``TraceSource``; counts how often the transcript was read."""

    def __init__(self, run: InlineRun) -> None:
        self.run = run
        self.reads = 0

    def read(self, _job_id: str) -> JobView:
        """Where the job stood at the end."""
        return self.run.view

    def messages(self, _job_id: str, start: int = 0) -> list[dict[str, Any]]:
        """The transcript from an index on."""
        self.reads += 1
        return self.run.messages[start:]

    def events(
        self, _job_id: str, after: str = "0", count: int = 1000, block_s: float = 0.0
    ) -> Sequence[Event]:
        """The records behind an offset."""
        ids = [event.id for event in self.run.events]
        start = ids.index(after) + 1 if after in ids else 0
        return self.run.events[start : start + count]


@tool(effects="safe")
def status(order: str) -> str:
    """Where an order is."""
    return f"{order}: delivered"


@tool
def lines(count: int) -> str:
    """A long text."""
    return "\n".join(f"line {number}" for number in range(count))


@tool(approval=True)
def refund(euro: int) -> str:
    """Pay money back."""
    return f"{euro} € paid"


@tool(effects="once")
def ship(order: str) -> str:
    """Send a parcel."""
    return f"{order} sent"


def clerk(script: Sequence[Any], **options: Any) -> Agent:
    """An agent with four tools that follows a script; each reply costs 400 + 30 tokens."""
    tools: list[Any] = [status, lines, refund, ship, hand_to_human]
    model = ScriptedModel(script, usage=Usage(400, 30))
    return Agent(name="clerk", goal="Help.", tools=tools, model=model, **options)


def record(
    script: Sequence[Any], task: str = "Where is 1187?", answers: Any = None, **options: Any
) -> Recorded:
    """A run of the clerk."""
    return Recorded(run_inline(clerk(script, **options), task, answers=answers, job_id="job-1"))


def printed(source: TraceSource, width: int | None = None, **options: Any) -> str:
    """The trace as it is printed into a file."""
    file = io.StringIO()
    print_trace(make_console(file, width=width), source, "job-1", **options)
    return file.getvalue()
