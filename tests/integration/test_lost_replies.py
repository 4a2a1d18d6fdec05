"""Redis executed a call and its reply was lost: the call is made again, and changes nothing.

One job goes through its life twice: once undisturbed, once with the connection cut in place of
one reply. Record, transcript and trace must be the same after both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from api_client.contract import Answer, JobSpec, JobStatus, Outcome, Pause, PauseKind
from api_client.keys import Keys
from api_client.scripts import Scripts
from tests.support.proxy import Proxy
from worker.store.base import Claimed, Progress, Settlement, Ticket
from worker.store.redis import RedisCheckpointStore

JOB = "6f1c6c1e-0000-4000-8000-000000000000"
TIMES = ("created", "since", "lease", "due_at")
CALLS = ("create", "claim", "commit", "renew", "settle", "signal", "published", "cancel")

Meddle = Callable[[str], Any]


def digest(name: str) -> bytes:
    """The SHA-1 by which the script of this name is called."""
    ours = Scripts("api_client" if name in ("create", "signal", "cancel") else "worker.store")
    return ours.digest(name).encode()


@pytest.fixture
def proxy(redis_url: str) -> Iterator[Proxy]:
    """In front of the Redis that all tests share."""
    port = redis.Redis.from_url(redis_url).connection_pool.connection_kwargs["port"]
    with Proxy(port) as proxy:
        yield proxy


def _live(store: RedisCheckpointStore, job_id: str, before: Meddle) -> None:
    """A job's life: a step, a question, its answer, the end."""

    def claim(nonce: str) -> Claimed:
        found = store.claim(job_id, owner="w/b/1/", nonce=nonce, lease_ms=60_000, max_tries=3)
        assert isinstance(found, Claimed)
        return found

    before("create")
    store.create(JobSpec(job_id=job_id, agent="plan", input="x"))
    before("claim")
    epoch = claim("one").epoch
    message = {"role": "assistant", "content": "…"}
    before("commit")
    assert store.commit(Ticket(job_id, epoch, 1), Progress("{}", "reply", {"n": 1}, [message]))
    before("renew")
    assert store.renew([(job_id, epoch)], 60_000) == ["renewed"]
    pause = Pause(id="p1", kind=PauseKind.HAND_TO_HUMAN, question="?", accepts=("answer",))
    before("settle")
    settled = Settlement(JobStatus.PAUSED, pause)
    assert store.settle(Ticket(job_id, epoch, 2), Progress("{}", "paused"), settled) == "paused"
    before("signal")
    store.signal(job_id, "p1", Answer(value="yes"), "s1")
    epoch = claim("two").epoch
    ended = Settlement(JobStatus.SUCCEEDED, Outcome(ok=True, value=1))
    progress = Progress("{}", "finished", {}, [message], consumes_signal=True)
    assert store.settle(Ticket(job_id, epoch, 3), progress, ended) == "succeeded"
    before("published")
    store.published(job_id)


def _cancelled(store: RedisCheckpointStore, job_id: str, before: Meddle) -> None:
    """A job that is cancelled before anybody took it up."""
    store.create(JobSpec(job_id=job_id, agent="plan", input="x"))
    before("cancel")
    store.cancel(job_id, by="me")


def _stored(url: str, job_id: str) -> dict[str, Any]:
    """All that is stored, without the times."""
    client: Any = redis.Redis.from_url(url, decode_responses=True)
    keys = Keys(0)
    with client:
        record = client.hgetall(keys.job(job_id))
        trace = [fields for _, fields in client.xrange(keys.trace(job_id))]
        record = {name: value for name, value in record.items() if name not in TIMES}
        if "answered" in record:
            record["answered"] = json.loads(record["answered"]) | {"at": 0}
        indexes = {
            key.rpartition(":")[2]
            for key in client.keys("{sk:0}:is:*")
            if client.type(key) == "zset" and client.zscore(key, job_id) is not None
        }
        messages = client.lrange(keys.messages(job_id), 0, -1)
    return {"record": record, "trace": trace, "messages": messages, "indexes": indexes}


@contextmanager
def _store(url: str) -> Iterator[RedisCheckpointStore]:
    store = RedisCheckpointStore.from_url(url)
    try:
        yield store
    finally:
        store._redis.close()


@pytest.mark.parametrize("call", CALLS)
def test_a_lost_reply_changes_nothing(redis_url: str, proxy: Proxy, call: str) -> None:
    """Rule 1: repeating any call of the store is harmless."""
    life = _cancelled if call == "cancel" else _live
    with _store(redis_url) as direct:
        life(direct, JOB, lambda _: None)
        undisturbed = _stored(redis_url, JOB)
        direct._redis.flushall()
    waiting = {call}

    def before(name: str) -> None:
        if name in waiting:
            waiting.remove(name)
            proxy.swallow_reply(digest(name))

    with _store(proxy.url) as store:
        life(store, JOB, before)
    assert proxy.swallowed.is_set()
    assert _stored(redis_url, JOB) == undisturbed
