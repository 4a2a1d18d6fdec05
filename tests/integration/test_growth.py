"""What a step costs, counted: round trips, commands, bytes; the same at every length (E7, rule 4).

Counts, not times: they are the same on every machine.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from api_client.connection import connect
from api_client.contract import JobSpec, JobStatus
from api_client.records import dumps
from tests.simulation.costs import measure
from tests.support.workers import eventually
from worker import Agent, tool
from worker.ends import Ended
from worker.leases import Leases
from worker.models.base import ModelReply, Usage
from worker.models.function import FunctionModel
from worker.runner import Runner, RunnerSettings
from worker.store.redis import RedisCheckpointStore

ANSWER = "o" * 400
REPLY = "r" * 200
REWRITE = "auto-aof-rewrite-percentage"


@tool(effects="safe")
def look(x: int) -> str:
    """Read."""
    return f"{x} {ANSWER}"


@dataclass(frozen=True, slots=True)
class Cost:
    """What running one job added to the server's counters."""

    commands: int
    aof_bytes: int
    memory_bytes: int
    message_bytes: int


def model(steps: int) -> FunctionModel:
    counter = itertools.count(1)

    def reply(_: list[dict[str, Any]]) -> ModelReply:
        step = next(counter)
        if step > steps:
            return ModelReply({"role": "assistant", "content": "done"}, Usage(10, 5), "stop")
        call = {
            "id": f"call_{step:024d}",
            "type": "function",
            "function": {"name": "look", "arguments": f'{{"x": {step}}}'},
        }
        message = {"role": "assistant", "content": REPLY, "tool_calls": [call]}
        return ModelReply(message, Usage(1000, 50), "tool_calls")

    return FunctionModel(reply)


def cost_of(url: str, steps: int) -> Cost:
    """Run a job of so many steps, on a store that knows the scripts already."""
    client = connect(url)
    agent = Agent(
        name="a", goal="g", tools=[look], model=model(steps), max_steps=None, max_repeats=None
    )
    store = RedisCheckpointStore(client)
    runner = Runner(
        store=store,
        agents={"a": agent},
        owner="n/b/1/",
        leases=Leases(store, 60_000),
        clock_ms=lambda: 0,
        default_model=lambda: model(0),
        settings=RunnerSettings(slice_steps=steps + 1),
    )
    job_id = str(uuid.UUID(int=steps))
    store.create(JobSpec(job_id=job_id, agent="a", input="go"))
    before = client.info()
    end = runner.run(job_id)
    after = client.info()
    assert isinstance(end, Ended)
    assert end.status is JobStatus.SUCCEEDED
    messages = store.messages(job_id)
    assert len(messages) == 2 + 2 * steps + 1
    return Cost(
        commands=after["total_commands_processed"] - before["total_commands_processed"],
        aof_bytes=after["aof_current_size"] - before["aof_current_size"],
        memory_bytes=after["used_memory_dataset"] - before["used_memory_dataset"],
        message_bytes=sum(len(dumps(message)) for message in messages),
    )


@pytest.fixture
def warm(redis_url: str) -> Iterator[str]:
    """A server that has the scripts and whose tables have grown; nothing shortens its file."""
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        kept: Any = client.config_get(REWRITE)
        client.config_set(REWRITE, "0")
        eventually(lambda: not _rewrites(client), "no rewrite of the append-only file")
        cost_of(redis_url, 50)
        yield redis_url
        client.config_set(REWRITE, kept[REWRITE])


def _rewrites(client: Any) -> bool:
    return bool(client.info("persistence")["aof_rewrite_in_progress"])


def test_e7_what_a_step_writes_does_not_grow_with_the_job(warm: str) -> None:
    short, long = cost_of(warm, 200), cost_of(warm, 1000)
    per_step = (long.aof_bytes - short.aof_bytes) / 800
    assert per_step == pytest.approx(short.aof_bytes / 200, rel=0.05)
    assert long.message_bytes == pytest.approx(5 * short.message_bytes, rel=0.02)


def test_a_step_is_two_scripts(warm: str) -> None:
    """The server counts each command of a script; a script is one round trip."""
    short, long = cost_of(warm, 100), cost_of(warm, 300)
    commands = (long.commands - short.commands) / 200
    reply_and_observation = 2 * len(["EVALSHA", "HMGET", "RPUSH", "HSET", "XADD"])
    assert commands <= reply_and_observation + 2


def test_what_is_stored_and_written_beside_the_messages(warm: str) -> None:
    cost = cost_of(warm, 500)
    assert cost.aof_bytes / cost.message_bytes <= 1.9
    assert cost.memory_bytes / cost.message_bytes <= 1.5


def test_what_turns_of_tenants_cost(redis_url: str) -> None:
    """Commands of one act: nothing for a job without a tenant, and no round trip for any."""
    found = {act: int(cost.get("commands", 0)) for act, cost in measure(redis_url, 20).items()}
    assert found["claim"] <= 23
    assert found["hand_over"] <= 18
    assert found["end"] <= 21
    assert found["renew"] <= 5
    assert found["commit_tenant"] == found["commit"]
    assert found["claim_tenant"] <= 62
    assert found["hand_over_tenant"] <= 48
    assert found["end_tenant"] <= 48
