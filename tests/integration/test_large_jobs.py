"""A job of many megabytes of messages works, and its last slice costs what its first did.

``TEST_LARGE_JOB_MB=50`` makes it as large as that.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from typing import Any

import pytest

from api_client.connection import connect
from api_client.contract import JobSpec, JobStatus
from worker import Agent, tool
from worker.ends import Ended, HandedOver
from worker.leases import Leases
from worker.models.base import ModelReply, Usage
from worker.models.function import FunctionModel
from worker.runner import Runner, RunnerSettings
from worker.store.redis import RedisCheckpointStore

MEGABYTES = int(os.environ.get("TEST_LARGE_JOB_MB", "5"))
OBSERVATION = 100_000
SLICE_STEPS = 5
WORDS = (
    "order",
    "refund",
    "headphones",
    "delivered",
    "address",
    "Bestellung",
    "在哪里",
    "warranty",
)


@tool(effects="safe")
def page(x: int) -> str:
    """A page of text, another one each time."""
    dice = random.Random(x)
    words = (f"{dice.choice(WORDS)}{dice.randrange(10_000)}" for _ in range(OBSERVATION // 12))
    return " ".join(words)


def reply(messages: list[dict[str, Any]]) -> ModelReply:
    step = sum(message["role"] == "assistant" for message in messages)
    if step >= STEPS:
        return ModelReply({"role": "assistant", "content": "done"}, Usage(10, 5), "stop")
    function = {"name": "page", "arguments": f'{{"x": {step}}}'}
    calls = [{"id": f"call_{step}", "type": "function", "function": function}]
    return ModelReply(
        {"role": "assistant", "content": "", "tool_calls": calls}, Usage(10, 5), "tool_calls"
    )


STEPS = MEGABYTES * 1_000_000 // OBSERVATION
AGENT = Agent(
    name="large",
    goal="Read everything.",
    tools=[page],
    model=FunctionModel(reply),
    max_steps=None,
    max_observation=2 * OBSERVATION,
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one slice took: commands, bytes sent to the server and read from it, seconds."""

    commands: int
    sent: int
    read: int
    seconds: float


class Meter:
    """The server's own counters."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def around(self, act: Any) -> tuple[Any, Cost]:
        before, began = self._client.info("stats"), time.perf_counter()
        result = act()
        seconds, after = time.perf_counter() - began, self._client.info("stats")
        commands, sent, read = (
            int(after[name] - before[name])
            for name in (
                "total_commands_processed",
                "total_net_input_bytes",
                "total_net_output_bytes",
            )
        )
        return result, Cost(commands, sent, read, seconds)


@pytest.mark.timeout(60 + 20 * MEGABYTES)
def test_its_slices_stay_flat(redis_url: str) -> None:
    client = connect(redis_url)
    store = RedisCheckpointStore(client)
    runner = Runner(
        store=store,
        agents={"large": AGENT},
        owner="n/b/1/",
        leases=Leases(store, 60_000),
        clock_ms=lambda: time.monotonic_ns() // 1_000_000,
        default_model=lambda: FunctionModel(reply),
        settings=RunnerSettings(slice_steps=SLICE_STEPS),
    )
    store.create(JobSpec(job_id="large", agent="large", input="go"))
    meter, costs = Meter(client), []
    while True:
        end, cost = meter.around(lambda: runner.run("large"))
        if isinstance(end, Ended):
            break
        assert isinstance(end, HandedOver), end
        costs.append(cost)
    assert end.status is JobStatus.SUCCEEDED
    messages = store.messages("large")
    size = sum(len(message["content"].encode()) for message in messages)
    assert size >= 0.9 * MEGABYTES * 1_000_000
    taken = client.memory_usage("{sk:0}:m:large", samples=0)
    first, last = costs[1], costs[-1]
    _report(size, taken, first, last)
    assert taken < 0.6 * size
    assert last.commands == first.commands
    assert last.sent <= 1.1 * first.sent
    assert last.read <= 1.1 * taken + 100_000, "the list is read once a slice, and as it is stored"
    client.close()


def _report(size: int, taken: int, first: Cost, last: Cost) -> None:
    print(f"\n{size / 1e6:.1f} MB of messages take {taken / 1e6:.1f} MB")
    for name, cost in (("first", first), ("last", last)):
        print(
            f"{name} slice: {cost.commands} commands, {cost.sent:,} bytes sent, "
            f"{cost.read:,} read, {cost.seconds:.3f} s"
        )
