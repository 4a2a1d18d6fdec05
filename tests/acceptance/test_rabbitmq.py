"""Any broker will do: the store is Redis, and RabbitMQ or Redis carries the hints.

Where RabbitMQ is not installed its half is skipped; in CI it must be there.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from celery import Celery
from kombu import Connection

from api_client import AgentClient
from api_client.redis_store import FIRST_HINT_GRACE_MS
from tests.support.lab import Lab
from tests.support.rabbitmq import RabbitServer
from tests.support.workers import RunningWorker, eventually
from worker.app import make_app
from worker.settings import Settings
from worker.watchdog import look

BROKERS = ("redis", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq))
RECOVERY_S = 60.0
"""The worker reconnects within some four seconds, and lost hints are sent again within two."""


class Shop:
    """A lab whose hints go over the broker of this test."""

    def __init__(self, lab: Lab, broker_url: str) -> None:
        self.lab = lab
        self.broker_url = broker_url
        self.client = AgentClient(lab.url, broker_url=broker_url)
        self.plain = Celery("plain", broker=broker_url, backend=lab.url, set_as_current=False)

    def worker(
        self, name: str = "w1@test", env: dict[str, str] | None = None, **options: Any
    ) -> RunningWorker:
        """A worker that takes messages from the broker of this test."""
        own = {"STEPKEEPER_BROKER_URL": self.broker_url, "STEPKEEPER_HINT_CAP_S": "2"}
        return self.lab.worker(name, env={**own, **(env or {})}, **options)

    def submit(self, words: str, **options: Any) -> str:
        """By our client."""
        return self.client.submit("plan", words, check_agent=False, **options)

    def call(self, words: str, **options: Any) -> Any:
        """By nothing but Celery."""
        return self.plain.send_task("agent.plan", args=[words], **options)


@pytest.fixture(params=BROKERS)
def shop(request: pytest.FixtureRequest, lab: Lab) -> Shop:
    """Once for each broker, with empty queues."""
    if request.param == "redis":
        return Shop(lab, lab.url)
    return over_rabbit(lab, request.getfixturevalue("rabbit"))


def over_rabbit(lab: Lab, rabbit: RabbitServer) -> Shop:
    """A shop over RabbitMQ where no earlier test has left a message."""
    with Connection(rabbit.url) as connection:
        channel: Any = connection.default_channel
        channel.queue_declare("celery", durable=True, auto_delete=False)
        channel.queue_purge("celery")  # deleted, it would be missed by producers of earlier tests
    return Shop(lab, rabbit.url)


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_job_from_a_caller_that_knows_only_celery(shop: Shop, pool: str) -> None:
    """Called by name, answered through the result backend."""
    shop.worker(pool=pool)
    assert shop.call("look put+pay @a").get(timeout=30) == "look 1; put 2; pay 2"


def test_a_killed_worker_is_replaced(shop: Shop) -> None:
    """SIGKILL in a tool: another worker goes on, and no reply is paid twice."""
    shop.lab.hold("put-a-2")
    first = shop.worker("w1@test")
    job_id = shop.submit("look put look @a")
    shop.lab.wait_gate("put-a-2")
    first.kill()
    shop.lab.open("put-a-2")
    shop.worker("w2@test")
    assert shop.client.result(job_id, timeout_s=30) == "look 1; put 2; look 3"
    steps = [entry["step"] for entry in shop.lab.ledger.entries("model", tag="a")]
    assert steps == [1, 2, 3, 4]
    assert len({entry["key"] for entry in shop.lab.ledger.entries("put")}) == 1


def test_a_person_answers(shop: Shop) -> None:
    """The pause is a state of the task; the answer comes through a task by name."""
    shop.worker()
    result = shop.call("look ask look @a")
    eventually(lambda: result.state == "PAUSED", "the pause shows")
    assert result.info["question"] == "question 2"
    answer = {"kind": "answer", "value": "yes"}
    told = shop.plain.send_task("stepkeeper.signal", args=[result.id, answer])
    assert told.get(timeout=30) == "accepted"
    assert str(result.get(timeout=30)).startswith("look 1; ")


def test_a_job_is_cancelled(shop: Shop) -> None:
    """While a worker runs it: it ends at its next commit."""
    shop.worker()
    with shop.lab.shut("look-a-1"):
        result = shop.call("look put @a")
        shop.lab.wait_gate("look-a-1")
        told = shop.plain.send_task("stepkeeper.cancel", args=[result.id])
        assert told.get(timeout=30) == "requested"
    shop.lab.wait_published(result.id)
    assert result.state == "REVOKED"
    assert shop.lab.ledger.entries("put") == []


def test_chains_and_links_see_the_answer(shop: Shop) -> None:
    """Also across a pause, after which the hint is one of ours."""
    shop.worker()
    chain = shop.plain.signature("agent.plan", args=["ask @a"]) | shop.plain.signature("lab.upper")
    link = shop.plain.signature("lab.note", kwargs={"where": "link"})
    result: Any = chain.apply_async(link=link)
    job_id = result.parent.id
    shop.lab.wait_status(job_id, "paused")
    shop.client.signal(job_id, {"kind": "answer", "value": "yes"})
    answer = str(result.get(timeout=30))
    assert answer == answer.upper() != ""
    assert shop.lab.ledger.wait("task", where="link")[0]["value"] == answer


def test_a_queue_that_has_properties_of_its_own(shop: Shop) -> None:
    """The client declares a plain queue of that name; the broker refuses that, not the message."""
    shop.worker(
        options=("--queues=vip",),
        env={"TEST_CONF": json.dumps({"task_queue_max_priority": 5})},
    )
    client = AgentClient(shop.lab.url, broker_url=shop.broker_url, queue="vip")
    job_id = client.submit("plan", "ask look @a", priority=5, check_agent=False)
    shop.lab.wait_status(job_id, "paused")
    client.signal(job_id, {"kind": "answer", "value": "yes"})
    shop.lab.wait_published(job_id)
    _, claimed = shop.lab.events(job_id, "claimed")
    waited = claimed.at - shop.lab.events(job_id, "signal")[0].at
    assert waited < FIRST_HINT_GRACE_MS


def test_doubled_messages_change_nothing(shop: Shop) -> None:
    """The same message twenty times, to two workers: every call is made once (rule 1)."""
    for name in ("w1@test", "w2@test"):
        shop.worker(name)
    job_id = str(uuid.uuid4())
    with shop.lab.shut("put-a-2"):
        for _ in range(20):
            shop.call("look put pay @a", task_id=job_id)
        shop.lab.wait_gate("put-a-2")
    view = shop.lab.wait_published(job_id)
    assert view.status == "succeeded"
    assert [entry["kind"] for entry in shop.lab.ledger.entries(tag="a") if "x" in entry] == [
        "look",
        "put",
        "pay",
    ]


def test_the_watchdog_counts_every_queue(shop: Shop) -> None:
    """A queue that nobody has made yet hides no message in another one."""
    app = make_app(
        Settings(
            redis_url=shop.lab.url, broker_url=shop.broker_url, agents=("tests.support.agents",)
        )
    )
    app.amqp.queues.select(["missing", "celery"])
    assert look(app, 4).waiting == 0
    shop.call("look @a")
    eventually(lambda: look(app, 4).waiting == 1, "the message waits")
    app.amqp.queues.deselect(["celery"])
    assert look(app, 4).waiting == 0


@pytest.mark.rabbitmq
def test_the_broker_is_restarted(lab: Lab, rabbit: RabbitServer) -> None:
    """Killed while jobs run and wait: jobs in flight do not notice, and hints go on unaided."""
    shop = over_rabbit(lab, rabbit)
    worker = shop.worker(concurrency=1)
    with lab.shut("look-a-1"):
        running = shop.submit("look @a")
        lab.wait_gate("look-a-1")
        waiting = shop.submit("look @b")
        rabbit.kill()
        unheard = shop.submit("look @c")
    assert shop.client.result(running, timeout_s=RECOVERY_S) == "look 1"
    rabbit.start()
    for job_id in (waiting, unheard):
        assert shop.client.result(job_id, timeout_s=RECOVERY_S) == "look 1"
    assert worker.alive
