"""Redis and RabbitMQ over TLS, with certificates for both sides, as ``deploy/redis`` has it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from flower.utils.broker import Broker  # type: ignore[import-untyped]
from kombu import Connection
from kombu.exceptions import OperationalError

from api_client import AgentClient
from api_client.celery_urls import for_celery
from api_client.errors import InvalidInput, StoreUnavailable
from tests.support.certificates import Certificates
from tests.support.lab import Lab
from tests.support.nursery import Nursery
from tests.support.rabbitmq import RabbitServer, server_program
from tests.support.shipped import ShippedRedis
from tests.support.workers import RunningWorker, eventually
from worker.app import make_app
from worker.cli import main
from worker.embedded.ports import free_ports
from worker.settings import Settings


def tls_server() -> str:
    """A Redis that was built with TLS; empty if there is none."""
    found = shutil.which("redis-server")
    if found is None:
        return ""
    done = subprocess.run(
        [found, "--tls-port", "0", "--port", "0", "--test-no-such-option", "1"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if "tls-port" in done.stdout + done.stderr else found


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Of this file."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(
    certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ShippedRedis]:
    """The shipped Redis, with ``REDIS_TLS=yes``."""
    program = tls_server()
    if not program:
        pytest.skip("no redis-server with TLS is installed (Debian: apt install redis-server)")
    certificate, key = certificates.server
    options = (
        *("--tls-cert-file", str(certificate), "--tls-key-file", str(key)),
        *("--tls-ca-cert-file", str(certificates.ca)),
    )
    with ShippedRedis(
        tmp_path_factory.mktemp("secured"),
        *options,
        program=program,
        env={"REDIS_TLS": "yes"},
        scheme="rediss",
        query=certificates.query,
    ) as server:
        yield server


@pytest.fixture(scope="module")
def worker(
    secured: ShippedRedis, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningWorker]:
    """A worker whose store, broker and results are there."""
    env = {"TEST_GATES": str(tmp_path_factory.mktemp("gates"))}
    worker = nursery.start(secured.url("worker"), app="worker.app", name="w1@tls", env=env)
    try:
        yield worker.wait_ready()
    finally:
        worker.kill()


def test_jobs_run_over_tls_to_redis(
    secured: ShippedRedis, worker: RunningWorker, capsys: pytest.CaptureFixture[str]
) -> None:
    client = AgentClient(secured.url("client"))
    eventually(client.agents, "the agents are announced")
    assert client.result(client.submit("plan", "look put")) == "look 1; put 2"
    # Our commands ask workers over it; the doctor finds nothing.
    assert main(("doctor", "--redis-url", secured.url("worker"))) == 0
    assert capsys.readouterr().out == "nothing found\n"
    for password in secured.passwords.values():
        assert password not in worker.log


def test_redis_takes_nobody_without_a_certificate(
    secured: ShippedRedis, certificates: Certificates, tmp_path: Path
) -> None:
    login = f"client:{secured.passwords['client']}@127.0.0.1:{secured.port}/0"
    others = Certificates(tmp_path)
    urls = {
        "without TLS": f"redis://{login}",
        "without a certificate": f"rediss://{login}?ssl_ca_certs={certificates.ca}",
        "of another authority": f"rediss://{login}{others.query}",
        "whose server is not known": f"rediss://{login}",
    }
    for what, url in urls.items():
        with pytest.raises(StoreUnavailable, match="cannot reach Redis") as caught:
            AgentClient(url, timeout_s=2).agents()
        assert secured.passwords["client"] not in str(caught.value), what


def test_a_server_of_another_name_is_refused(secured: ShippedRedis) -> None:
    with secured.client("monitor") as client:
        assert client.ping()
    elsewhere = secured.url("monitor").replace("127.0.0.1", "localhost")
    with (
        redis.Redis.from_url(elsewhere) as client,
        pytest.raises(redis.ConnectionError, match=r"[Hh]ostname|not valid for"),
    ):
        client.ping()


def test_flower_counts_queues_over_tls(secured: ShippedRedis, worker: RunningWorker) -> None:
    settings = Settings(redis_url=secured.url("monitor"), watch_only=True)
    conf = make_app(settings).conf
    broker = Broker(
        conf.broker_url, broker_options=conf.broker_transport_options,
        broker_use_ssl=conf.broker_use_ssl,
    )  # fmt: skip
    (queue,) = asyncio.run(broker.queues(["celery"]))
    assert queue == {"name": "celery", "messages": 0}


@pytest.fixture
def rabbit(certificates: Certificates, tmp_path: Path) -> Iterator[str]:
    """The URL of a RabbitMQ that takes nobody without a certificate."""
    if server_program() is None:
        pytest.skip("rabbitmq-server is not installed (Debian: apt install rabbitmq-server)")
    (port,) = free_ports(1)
    certificate, key = certificates.server
    lines = (
        f"listeners.ssl.default = 127.0.0.1:{port}",
        f"ssl_options.cacertfile = {certificates.ca}",
        f"ssl_options.certfile = {certificate}",
        f"ssl_options.keyfile = {key}",
        "ssl_options.verify = verify_peer",
        "ssl_options.fail_if_no_peer_cert = true",
    )
    with RabbitServer(tmp_path / "rabbitmq", lines=lines):
        yield f"amqps://guest:guest@127.0.0.1:{port}//"


@pytest.mark.rabbitmq
def test_jobs_run_over_tls_to_rabbitmq(
    lab: Lab, rabbit: str, certificates: Certificates, tmp_path: Path
) -> None:
    broker = rabbit + certificates.query
    lab.worker(env={"STEPKEEPER_BROKER_URL": broker})
    client = AgentClient(lab.url, broker_url=broker)
    job = client.submit("plan", "look put", check_agent=False)
    assert client.result(job) == "look 1; put 2"
    assert [str(e.data["worker"]).partition("/")[0] for e in lab.events(job, "claimed")] == [
        "w1@test"
    ]
    for url in (rabbit, f"{rabbit}?ssl_ca_certs={certificates.ca}", rabbit + _others(tmp_path)):
        place = for_celery(url)
        refused = (OSError, OperationalError)
        with (
            pytest.raises(refused),
            Connection(place.url, ssl=place.tls or False, connect_timeout=3) as connection,
        ):
            connection.connect()


def _others(folder: Path) -> str:
    """A client's files, of an authority that the server does not know."""
    (folder / "others").mkdir()
    return Certificates(folder / "others").query


def test_an_option_that_a_broker_url_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ssl_cert is no option") as caught:
        for_celery("amqps://guest:topsecret@127.0.0.1//?ssl_cert=/x.pem")
    assert "topsecret" not in str(caught.value)
