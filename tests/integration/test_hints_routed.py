"""Where a client without routes of its own sends the hints of jobs that name no queue."""

from __future__ import annotations

import pytest
import redis

from api_client import AgentClient
from api_client.contract import AgentInfo, JobSpec
from worker.store.redis import RedisCheckpointStore


@pytest.fixture
def client(redis_url: str) -> AgentClient:
    """Its workers have announced that the jobs of one agent go to a queue of their own."""
    store = RedisCheckpointStore.from_url(redis_url)
    store.announce([AgentInfo(name="shop", queue="agents"), AgentInfo(name="plain")])
    for job_id, agent in (("a", "shop"), ("b", "plain"), ("c", "unknown")):
        store.create(JobSpec(job_id=job_id, agent=agent, input="x"))
    store.create(JobSpec(job_id="d", agent="shop", input="x", message={"queue": "vip"}))
    return AgentClient(redis_url, store=store)


@pytest.mark.parametrize(
    ("job_id", "queue"), [("a", "agents"), ("b", "celery"), ("c", "celery"), ("d", "vip")]
)
def test_to_the_queue_of_the_workers(
    client: AgentClient, redis_url: str, job_id: str, queue: str
) -> None:
    client.hint(client.get(job_id).spec)
    with redis.Redis.from_url(redis_url) as server:
        waiting = {queue: server.llen(queue) for queue in ("agents", "celery", "vip")}
    assert {name: count for name, count in waiting.items() if count} == {queue: 1}
