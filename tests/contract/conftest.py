"""Every test here runs on every store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api_client.sealing import new_key
from tests.contract.worlds import MemoryWorld, RedisWorld, World
from worker.store.base import CheckpointStore


@pytest.fixture(params=["memory", "redis", "redis-in-4-partitions", "redis-encrypted"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A store that is empty, and its clock."""
    if request.param == "memory":
        yield MemoryWorld()
        return
    url = request.getfixturevalue("redis_url")
    if request.param == "redis-encrypted":
        # what is written in the clear by mistake is refused
        request.getfixturevalue("encryption")(new_key(), required=True)
    redis_world = RedisWorld(url, partitions=4 if request.param == "redis-in-4-partitions" else 1)
    yield redis_world
    redis_world.close()


@pytest.fixture
def store(world: World) -> CheckpointStore:
    """The store of the world."""
    return world.store
