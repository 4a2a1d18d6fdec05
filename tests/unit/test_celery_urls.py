"""One URL for the store is enough: Celery is told the same in its own spelling."""

from __future__ import annotations

import pytest
from celery import Celery

from api_client.celery_urls import for_celery
from api_client.connection import SentinelUrl
from api_client.errors import InvalidInput
from worker.celery_config import ours
from worker.settings import Settings

TWO = "sentinel://me:p%40ss@one:1,[::1]/3?master=main&sentinel_password=s"


@pytest.mark.parametrize(
    "url", ["redis://h:1/2", "amqp://u:p@h//", "redis+socket:///run/r.sock", "memory://"]
)
def test_what_celery_knows_stays_as_it_is(url: str) -> None:
    """Only our own spellings are translated."""
    assert for_celery(url).url == url
    assert for_celery(url).options == {}


def test_sentinels_become_one_url_each() -> None:
    """The primary's name and the sentinels' own password stand beside the URL."""
    found = for_celery(TWO)
    assert found.url == "sentinel://me:p%40ss@one:1/3;sentinel://me:p%40ss@[::1]:26379/3"
    assert found.options["master_name"] == "main"
    assert found.options["sentinel_kwargs"]["password"] == "s"
    assert found.is_redis


def test_a_sentinel_url_is_read_as_it_is_written() -> None:
    """Ports, database, login and name have the usual defaults."""
    place = SentinelUrl.parse(TWO)
    assert place.hosts == (("one", 1), ("::1", 26379))
    assert (place.db, place.username, place.password) == (3, "me", "p@ss")
    plain = SentinelUrl.parse("sentinel://one")
    assert plain.hosts == (("one", 26379),)
    assert (plain.master, plain.db, plain.username, plain.password) == ("mymaster", 0, None, None)


@pytest.mark.parametrize("url", ["sentinel:///0", "sentinel://h:x/0", "sentinel://h/x"])
def test_a_broken_sentinel_url_is_named(url: str) -> None:
    """Without its password."""
    with pytest.raises(InvalidInput, match="Redis URL 'sentinel://"):
        for_celery(url)


def test_a_unix_socket_keeps_its_database() -> None:
    """Celery's word for a database is virtual host."""
    found = for_celery("unix:///run/redis.sock?db=2")
    assert found.url == "redis+socket:///run/redis.sock?virtual_host=2"
    assert found.is_redis


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("rediss://h:1/0", "rediss://h:1/0?ssl_cert_reqs=required"),
        ("rediss://h:1/0?ssl_cert_reqs=none", "rediss://h:1/0?ssl_cert_reqs=none"),
    ],
)
def test_certificates_are_checked_unless_told_otherwise(url: str, checked: str) -> None:
    """Celery refuses a result backend that does not say so itself."""
    assert for_celery(url).url == checked
    app = Celery("tls", backend=checked, set_as_current=False)
    assert app.backend.as_uri().startswith("rediss://h:1/0")


def test_the_worker_gets_socket_time_outs_wherever_redis_is() -> None:
    """A silent connection must not hang a worker for good."""
    for url in ("redis://h", TWO, "unix:///s"):
        options = ours(Settings(redis_url=url))["broker_transport_options"]
        assert options["socket_timeout"] == 5
    assert ours(Settings(broker_url="amqp://h//"))["broker_transport_options"] == {}
