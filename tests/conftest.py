"""What all tests share: a real valkey-server, a clean environment, and no skips in CI."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import redis

from api_client.protection import protection
from api_client.sealing import keyring, new_key
from tests.support.ciphers import UseKeys
from worker.embedded import EmbeddedServer
from worker.redact import hide_everywhere


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own settings and keys change no test, nor do those of an earlier one."""
    for name in list(os.environ):
        if name.startswith(("STEPKEEPER_", "LLM_", "OPENAI_", "ANTHROPIC_", "CELERY_", "OTEL_")):
            monkeypatch.delenv(name)
    hide_everywhere(())


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """The valkey-server of this run. Don't kill it: ``own_valkey`` is there for that."""
    with EmbeddedServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def redis_url(valkey: EmbeddedServer) -> str:
    """The URL of an empty Redis, where no earlier test has left a key, a script or a client."""
    client = redis.Redis.from_url(valkey.url)
    with client:
        client.client_kill_filter(_type="normal", skipme=True)
        client.client_kill_filter(_type="pubsub")
        client.flushall()
        client.script_flush()
    return valkey.url


@pytest.fixture
def encryption(monkeypatch: pytest.MonkeyPatch) -> Iterator[UseKeys]:
    """This process encrypts what it stores, with a key of its own; called, with others."""

    def use(keys: str, *, required: bool = False) -> None:
        monkeypatch.setenv("STEPKEEPER_ENCRYPTION_KEYS", keys)
        monkeypatch.setenv("STEPKEEPER_ENCRYPTION_REQUIRED", str(required).lower())
        protection.cache_clear()
        keyring.cache_clear()

    use(new_key())
    yield use
    monkeypatch.undo()
    protection.cache_clear()
    keyring.cache_clear()


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A durable valkey-server for one test alone, which may kill, freeze and restart it."""
    with EmbeddedServer(tmp_path / "own-valkey") as server:
        yield server


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: the long tests wait more than they compute."""
    cores = os.cpu_count() or 1
    return min(cores + max(1, cores // 2), 6)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skipped test is a failed test: everything that it needs has to be there."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole file that skips itself."""
    report = yield
    if report.skipped:
        _forbid_skip(report)
    return report


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
