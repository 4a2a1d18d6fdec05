"""What a worker is started with."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from api_client.errors import InvalidInput
from worker.cli.command import Common
from worker.cli.session import Session
from worker.cli.working import Pool, _settings, node_name
from worker.settings import Settings


def settings(
    agents: str | None = "a.b",
    concurrency: int | None = None,
    pool: Pool = "threads",
    **common: Any,
) -> Settings:
    """What a worker with these options goes by."""
    with Session(Common(**common)) as session:
        return _settings(session, agents, concurrency, pool)


def test_the_command_line_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPKEEPER_AGENTS", "env.agents")
    monkeypatch.setenv("STEPKEEPER_CONCURRENCY", "3")
    monkeypatch.setenv("STEPKEEPER_LEASE_S", "4")
    found = settings(None, redis_url="redis://r/1", broker_url="amqp://b", partitions=4)
    assert (found.agents, found.concurrency, found.lease_s) == (("env.agents",), 3, 4.0)
    assert (found.redis_url, found.broker_url, found.partitions) == ("redis://r/1", "amqp://b", 4)
    found = settings("x.y:z, p.q", 8)
    assert (found.agents, found.concurrency) == (("x.y:z", "p.q"), 8)


def test_processes_are_as_many_as_processors_unless_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert settings().concurrency == 16
    assert settings(pool="prefork").concurrency == 6
    assert settings(pool="prefork", concurrency=2).concurrency == 2
    monkeypatch.setenv("STEPKEEPER_CONCURRENCY", "5")
    assert settings(pool="prefork").concurrency == 5


def test_a_worker_without_agents_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no agent to run; give import paths with --agents"):
        settings(None)


def test_a_setting_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPKEEPER_LEASE_S", "soon")
    with pytest.raises(InvalidInput, match="lease_s: Input should be a valid number"):
        settings()


def test_a_node_name_gets_its_host() -> None:
    host = socket.gethostname()
    assert node_name("stepkeeper@%h") == f"stepkeeper@{host}"
    assert node_name("w1") == f"w1@{host}"
    assert node_name("w1@else.where") == "w1@else.where"
