"""What an accepted job survives: a caller can ask, and the answer is what the server does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from api_client import AgentClient
from api_client.admin import AdminStore, Durability
from api_client.errors import JobNotFound
from tests.support.workers import eventually
from worker.embedded import EmbeddedServer


def asked(url: str, *, wait_replicas: int = 0) -> Durability:
    """The answer for a client with this URL."""
    return AdminStore.from_url(url, wait_replicas=wait_replicas).durability()


@contextmanager
def replicated(folder: Path) -> Iterator[EmbeddedServer]:
    """A server with one replica that has all that it has."""
    config = {"repl-diskless-sync-delay": "0"}
    with EmbeddedServer(folder / "primary", config=config) as primary:
        follow = {"replicaof": f"127.0.0.1 {primary.endpoint.port}"}
        with EmbeddedServer(folder / "replica", config=follow) as replica:
            client = redis.Redis.from_url(replica.url)
            eventually(
                lambda: client.info("replication")["master_link_status"] == "up", "it is in step"
            )
            client.close()
            yield primary


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"appendfsync": "always"}, "power_loss"),
        ({"appendfsync": "everysec"}, "process_crash"),
        ({"appendfsync": "no"}, "process_crash"),
        ({"appendonly": "no"}, "nothing"),
    ],
    ids=["always", "everysec", "no-fsync", "no-file"],
)
def test_each_setting_has_its_word(
    own_valkey: EmbeddedServer, config: dict[str, str], expected: str
) -> None:
    """And the settings themselves are told, for whoever wants to know why."""
    with redis.Redis.from_url(own_valkey.url) as client:
        for name, value in config.items():
            client.config_set(name, value)
    found = asked(own_valkey.url)
    assert found.survives == expected
    assert found.appendonly is (config.get("appendonly") != "no")
    assert found.appendfsync == config.get("appendfsync", "always")
    assert found.maxmemory_policy == "noeviction"
    assert (found.replicas, found.wait_replicas) == (0, 0)


def test_replicas_are_counted(tmp_path: Path) -> None:
    """Those that are there, and those that this client waits for."""
    with replicated(tmp_path) as primary:
        found = asked(primary.url, wait_replicas=1)
    assert (found.replicas, found.wait_replicas) == (1, 1)
    assert found.survives == "power_loss"


@pytest.mark.parametrize(
    ("forbidden", "replicas"), [("-config", 0), ("-config -info", None)], ids=["config", "both"]
)
def test_a_user_who_may_not_ask_is_told_that_it_is_unknown(
    own_valkey: EmbeddedServer, forbidden: str, replicas: int | None
) -> None:
    """No guess, and no error: managed servers allow neither."""
    with redis.Redis.from_url(own_valkey.url) as client:
        client.execute_command(
            "ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", *forbidden.split()
        )
    found = asked(own_valkey.url.replace("redis://", "redis://app:pw@"))
    assert found.survives == "unknown"
    assert found.appendfsync is None
    assert found.maxmemory_policy is None
    assert found.replicas == replicas


def test_what_is_said_is_true_for_a_crash_of_the_process(tmp_path: Path) -> None:
    """``everysec``: SIGKILL right behind the reply, and the job is there."""
    with EmbeddedServer(tmp_path / "v", appendfsync="everysec") as server:
        assert asked(server.url).survives == "process_crash"
        job_id = AgentClient(server.url).submit("plan", "x", check_agent=False)
        os.kill(server.pid, signal.SIGKILL)
        server.kill()
        server.start()
        assert AgentClient(server.url).get(job_id).status == "queued"


def test_what_is_said_is_true_for_nothing(tmp_path: Path) -> None:
    """No file: the same SIGKILL takes the job."""
    with EmbeddedServer(tmp_path / "v", config={"appendonly": "no"}) as server:
        assert asked(server.url).survives == "nothing"
        job_id = AgentClient(server.url).submit("plan", "x", check_agent=False)
        server.kill()
        server.start()
        with pytest.raises(JobNotFound):
            AgentClient(server.url).get(job_id)
