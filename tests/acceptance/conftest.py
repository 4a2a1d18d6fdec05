"""What the tests with real workers share."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.support.matrix")

from tests.support.lab import Lab  # noqa: E402 - after what changes how modules are read
from tests.support.nursery import Nursery  # noqa: E402
from tests.support.rabbitmq import RabbitServer, server_program  # noqa: E402
from tests.support.workers import KNOWN  # noqa: E402

LAST_LINES = 60


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Beside a failure stands what the workers of that moment printed last."""
    report = yield
    if report.failed and report.when == "call":
        for worker in KNOWN:
            state = "alive" if worker.alive else "dead"
            told = "\n".join(worker.lines[-LAST_LINES:])
            report.sections.append((f"worker {worker.name}, {state}", told))
    return report


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where workers come from."""
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def lab(nursery: Nursery, redis_url: str, tmp_path: Path) -> Iterator[Lab]:
    """An empty store and no worker yet; all are dead afterwards."""
    lab = Lab(nursery, redis_url, tmp_path)
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """One RabbitMQ for a file."""
    if server_program() is None:
        pytest.skip("rabbitmq-server is not installed (Debian: apt install rabbitmq-server)")
    with RabbitServer(tmp_path_factory.mktemp("rabbitmq")) as server:
        yield server
