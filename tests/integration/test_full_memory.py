"""New jobs are refused before the server's memory is full, and running ones go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from api_client.connection import connect
from api_client.contract import JobSpec
from api_client.errors import StorageFull
from api_client.room import LOOK_AGAIN_S, LOOK_EVERY_S, Memory
from api_client.sizes import sizes
from worker.state import RunState
from worker.store.base import Claimed, Progress, Ticket
from worker.store.redis import RedisCheckpointStore


@pytest.fixture(autouse=True)
def _fresh_sizes() -> Iterator[None]:
    sizes.cache_clear()
    yield
    sizes.cache_clear()


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with connect(redis_url) as client:
        yield client
        client.config_set("maxmemory", 0)
        client.delete("ballast")


def fill(client: Any, share: float) -> None:
    """Let so much of the memory be used; what is left is more than a test takes."""
    client.set("ballast", b"x" * 20_000_000)
    used = int(client.info("memory")["used_memory"])
    client.config_set("maxmemory", int(used / share))


def spec(job_id: str, **fields: Any) -> JobSpec:
    return JobSpec(job_id=job_id, agent="a", input="x", **fields)


def test_new_jobs_are_refused_and_running_ones_commit(client: Any) -> None:
    store = RedisCheckpointStore(client, where="the store")
    store.create(spec("one"))
    claimed = store.claim("one", owner="o/", nonce="n", lease_ms=9999, max_tries=3)
    assert isinstance(claimed, Claimed)
    fill(client, 0.97)
    fresh = RedisCheckpointStore(client, where="the store")
    with pytest.raises(StorageFull) as caught:
        fresh.create(spec("two"))
    text = str(caught.value)
    assert text.startswith("the store uses ")
    assert "from 95% on (STEPKEEPER_MEMORY_SHARE) no new job is accepted" in text
    assert not fresh.create(spec("one")).new
    assert fresh.create(spec("sub", parent="one")).new
    progress = Progress(RunState().dump(), "reply", {}, [{"role": "user", "content": "x"}])
    assert store.commit(Ticket("one", claimed.epoch, 1), progress) == "committed"


@pytest.mark.parametrize("share", ["0", "1"])
def test_the_setting_says_when(client: Any, monkeypatch: pytest.MonkeyPatch, share: str) -> None:
    monkeypatch.setenv("STEPKEEPER_MEMORY_SHARE", share)
    fill(client, 0.97)
    assert RedisCheckpointStore(client).create(spec("one")).new


def test_the_server_is_asked_at_most_once_a_second(client: Any) -> None:
    now = 0.0
    memory = Memory(client, "the store", lambda: now)

    def asked() -> int:
        stats: Any = client.info("commandstats")
        return int(stats["cmdstat_info"]["calls"])

    fill(client, 0.5)
    before = asked()
    for _ in range(50):
        memory.check()
    assert asked() - before == 2  # the memory's one, and the test's own
    now += LOOK_EVERY_S
    memory.check()
    assert asked() - before == 4
    client.config_set("maxmemory", 0)
    now += LOOK_EVERY_S
    memory.check()
    now += LOOK_AGAIN_S - 1
    before = asked()
    memory.check()
    assert asked() - before == 1


def test_whoever_may_not_ask_goes_on(client: Any, redis_url: str) -> None:
    client.acl_setuser("small", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-info"])
    try:
        fill(client, 0.97)
        with redis.Redis.from_url(redis_url, username="small", password="x") as small:
            assert RedisCheckpointStore(small).create(spec("one")).new
    finally:
        client.acl_deluser("small")
