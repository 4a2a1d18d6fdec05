"""The rules hold under any interleaving, on every store, and all stores say the same.

``HYPOTHESIS_PROFILE=nightly`` looks for longer, and elsewhere each time; the default looks at the
same examples at each run, so that a failure is a change's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from api_client.tenants import TenantPolicy
from tests.contract.machine import StoreMachine
from tests.contract.twins import TwinWorld
from tests.contract.worlds import MemoryWorld, RedisWorld, World
from worker.embedded import EmbeddedServer

_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
PROFILES = {
    "ci": settings(
        max_examples=60,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=_SLOW,
    ),
    "nightly": settings(
        max_examples=3000,
        stateful_step_count=80,
        deadline=None,
        suppress_health_check=_SLOW,
    ),
}
MEMORY_IS_FAST = 4


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that need not survive anything, and so is quick."""
    folder: Path = tmp_path_factory.mktemp("valkey-for-properties")
    with EmbeddedServer(folder, appendfsync="no") as server:
        yield server.url


def emptied(url: str) -> str:
    with redis.Redis.from_url(url) as client:
        client.flushall()
    return url


def profile(factor: float = 1) -> settings:
    chosen = PROFILES[os.environ.get("HYPOTHESIS_PROFILE", "ci")]
    return settings(chosen, max_examples=int(chosen.max_examples * factor))


def run(
    make_world: Callable[[], World],
    chosen: settings,
    tenants: Mapping[str, str] | None = None,
) -> None:
    machine: Any = lambda: StoreMachine(make_world(), tenants)  # noqa: E731 - typed as a class
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.timeout(3600)
def test_the_rules_hold_in_memory() -> None:
    run(MemoryWorld, profile(MEMORY_IS_FAST))


@pytest.mark.timeout(3600)
def test_the_rules_hold_on_redis(server_url: str) -> None:
    run(lambda: RedisWorld(emptied(server_url)), profile())


@pytest.mark.timeout(3600)
def test_memory_and_redis_in_partitions_never_differ(server_url: str) -> None:
    def twins() -> World:
        return TwinWorld(MemoryWorld(), RedisWorld(emptied(server_url), partitions=4))

    run(twins, profile())


@pytest.mark.parametrize("tenants", [{"a": "one", "b": "two"}, {"a": "one", "b": "one"}])
@pytest.mark.timeout(3600)
def test_turns_are_kept_in_memory(tenants: Mapping[str, str]) -> None:
    run(lambda: limited(MemoryWorld()), profile(MEMORY_IS_FAST / 2), tenants)


@pytest.mark.parametrize("tenants", [{"a": "one", "b": "two"}, {"a": "one", "b": "one"}])
@pytest.mark.timeout(3600)
def test_turns_in_memory_and_redis_never_differ(
    server_url: str, tenants: Mapping[str, str]
) -> None:
    def twins() -> World:
        return limited(TwinWorld(MemoryWorld(), RedisWorld(emptied(server_url))))

    run(twins, profile(1 / 2), tenants)


def limited(world: World) -> World:
    """A world in which a tenant runs one job at a time, and no worker has said anything."""
    world.store.set_policy("*", TenantPolicy(concurrency=1))
    return world
