"""Signed messages: a worker that takes no others, and somebody who may write to its broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.result import AsyncResult
from kombu import Connection

from api_client import AgentClient
from api_client.keys import Keys
from api_client.protection import protection
from api_client.signing import signed
from tests.support.lab import Lab
from tests.support.nursery import Nursery
from tests.support.rabbitmq import RabbitServer
from tests.support.signers import Signer
from tests.support.workers import eventually
from worker.cli import main

QUEUE = "celery"


@pytest.fixture
def signer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Signer]:
    """Whose messages are accepted; this process signs with it, too."""
    signer = Signer(tmp_path, "ours", tmp_path / "accepted")
    for name, value in signer.env.items():
        monkeypatch.setenv(name, value)
    protection.cache_clear()
    yield signer
    monkeypatch.undo()
    protection.cache_clear()


def signing_app(url: str, like: Signer, broker_url: str = "") -> Celery:
    """A plain Celery app that signs as Celery's own documentation tells; no line of ours."""
    app = Celery("signing", broker=broker_url or url, backend=url, set_as_current=False)
    app.conf.update(
        security_key=str(like.key),
        security_certificate=str(like.cert),
        security_cert_store=str(like.accepted),
        task_serializer="auth",
        accept_content=["auth"],
        result_accept_content=["json"],
    )
    return app


def forge(lab: Lab, stranger: Signer) -> AsyncResult[Any]:
    """A task and a command with the signature of somebody else; afterwards this process's again."""
    settings = protection().model_copy(
        update={"signing_key": str(stranger.key), "signing_cert": str(stranger.cert)}
    )
    app = Celery("stranger", broker=lab.broker_url, backend=lab.url, set_as_current=False)
    app.conf.update(signed(settings))
    try:
        forged = app.send_task("agent.plan", args=["look @no"])
        app.control.broadcast("shutdown")
    finally:
        signed(protection())
    return forged


def read_up(lab: Lab) -> None:
    """Wait until the worker has taken every message."""
    redis: Any = lab.redis
    eventually(lambda: redis.llen(QUEUE) == 0, "the queue is empty")


def test_only_signed_messages_and_commands_are_taken(
    lab: Lab, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    client = AgentClient(lab.url)
    job_id = client.submit("plan", "look @one", check_agent=False)
    redis: Any = lab.redis
    [captured] = redis.lrange(QUEUE, 0, -1)
    worker = lab.worker(env=signer.env)
    assert client.result(job_id, 30) == "look 1"

    # a caller that knows nothing of this package
    theirs = signing_app(lab.url, signer)
    assert theirs.send_task("agent.plan", args=["look @two"]).get(timeout=30) == "look 1"

    # somebody who can write to the broker, and has no key: the lab's own app
    forged = lab.send("look @three")
    lab.plain.control.broadcast("shutdown")
    lab.plain.control.broadcast("agent_drain")
    lab.plain.control.revoke(job_id, terminate=True)
    worker.wait_line("Refusing to deserialize")
    read_up(lab)
    assert not redis.exists(f"{{sk:0}}:j:{forged.id}")

    # a message that was signed, sent again
    lab.wait_published(job_id)
    before = lab.record(job_id)
    for _ in range(3):
        redis.lpush(QUEUE, captured)
    read_up(lab)
    theirs.send_task("agent.plan", args=["look @four"]).get(timeout=30)
    assert lab.record(job_id) == before

    # commands of who has a key, after all that
    assert worker.alive
    assert main(["ping", "--redis-url", lab.url, "--name", "w1@test"]) == 0, capsys.readouterr()


def test_a_signature_of_somebody_unknown_is_refused(
    lab: Lab, signer: Signer, tmp_path: Path
) -> None:
    worker = lab.worker(env=signer.env)
    stranger = Signer(tmp_path, "stranger", tmp_path / "elsewhere")
    forged = forge(lab, stranger)
    worker.wait_line("Unable to deserialize")
    read_up(lab)
    client = AgentClient(lab.url)
    assert client.result(client.submit("plan", "look @yes", check_agent=False), 30) == "look 1"
    redis: Any = lab.redis
    assert worker.alive
    assert not redis.exists(f"{{sk:0}}:j:{forged.id}")


# --- the same over RabbitMQ -----------------------------------------------------------------------


@pytest.fixture
def far(nursery: Nursery, redis_url: str, rabbit: RabbitServer, tmp_path: Path) -> Iterator[Lab]:
    """A lab whose broker is RabbitMQ."""
    folder = tmp_path / "far"
    folder.mkdir()
    lab = Lab(nursery, redis_url, folder, broker_url=rabbit.url)
    yield lab
    lab.close()


def waiting(lab: Lab) -> int:
    """Messages in the queue that no worker has taken."""
    with Connection(lab.broker_url) as connection:
        channel: Any = connection.default_channel
        return int(channel.queue_declare(QUEUE, passive=True).message_count)


@pytest.mark.rabbitmq
def test_over_rabbitmq_only_signed_messages_and_commands_are_taken(
    far: Lab, signer: Signer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = far.worker(env=signer.env)
    client = AgentClient(far.url, broker_url=far.broker_url)
    job_id = client.submit("plan", "look @one", check_agent=False)
    assert client.result(job_id, 30) == "look 1"
    theirs = signing_app(far.url, signer, far.broker_url)
    assert theirs.send_task("agent.plan", args=["look @two"]).get(timeout=30) == "look 1"

    unsigned = far.send("look @three")
    far.plain.control.broadcast("shutdown")
    far.plain.control.broadcast("agent_drain")
    worker.wait_line("Refusing to deserialize")
    forged = forge(far, Signer(tmp_path, "stranger", tmp_path / "elsewhere"))
    worker.wait_line("Unable to deserialize")
    eventually(lambda: waiting(far) == 0, "the queue is empty")

    # it has read both, for it takes the next one; and it obeys who has a key
    assert theirs.send_task("agent.plan", args=["look @four"]).get(timeout=30) == "look 1"
    assert worker.alive
    redis: Any = far.redis
    for refused in (unsigned, forged):
        assert not redis.exists(Keys(0).job(refused.id))
    words = ("ping", "--redis-url", far.url, "--broker-url", far.broker_url, "--name", "w1@test")
    assert main(words) == 0, capsys.readouterr()
