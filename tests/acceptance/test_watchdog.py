"""A worker that takes no messages although it could restarts itself; any other is left alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.lab import Lab
from tests.support.workers import WorkerProcess, eventually, running
from worker.app import make_app
from worker.embedded.ports import free_ports
from worker.settings import Settings
from worker.watchdog import look

STALL_S = 1.0
RESTARTING = "restarting"
AGENTS = ("tests.support.agents",)


@contextmanager
def worker(lab: Lab, **options: Any) -> Iterator[WorkerProcess]:
    """A worker that was started by its own command line, as the restart repeats that."""
    env = {"STEPKEEPER_STALL_S": str(STALL_S), **lab.env}
    with running(lab.url, app="tests.support.deaf_app", env=env, **options) as started:
        yield started


def looks(lab: Lab) -> int:
    """How often somebody has asked whether a queue exists: only the watchdog does."""
    stats = lab.redis.info("commandstats")
    return int(stats.get("cmdstat_exists", {}).get("calls", 0))


def wait_looks(lab: Lab, count: int = 18) -> None:
    """Let the watchdog look so often; it needs six looks to call something a stall."""
    before = looks(lab)
    eventually(lambda: looks(lab) >= before + count, f"{count} looks of the watchdog")


def tell(lab: Lab, command: str, **arguments: str) -> None:
    """A control command that the worker must answer."""
    with lab.plain.connection_for_write() as connection:
        answers = lab.plain.control.broadcast(
            command, arguments=arguments, reply=True, timeout=10, limit=1, connection=connection
        )
    assert answers, f"nobody answered {command}"


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_deaf_worker_restarts_and_takes_what_waits(lab: Lab, pool: str) -> None:
    """It stays the same process, keeps its arguments, and jobs that ran in it go on."""
    with worker(lab, pool=pool) as deaf:
        with lab.shut("put-held-1"):
            held = lab.submit("put look @held")
            lab.wait_gate("put-held-1")
            tell(lab, "deafen")
            waiting = lab.submit("look @waiting")
            deaf.wait_line(RESTARTING)
            deaf.wait_line(" ready.", count=2)
        assert lab.client.result(waiting, timeout_s=30) == "look 1"
        assert lab.client.result(held, timeout_s=30) == "put 1; look 2"
        assert deaf.alive
        first, again = lab.ledger.entries("put", tag="held")
        assert first["key"] == again["key"]
        if pool == "prefork":
            eventually(lambda: not _exists(first["pid"]), "the old child is gone")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_busy_worker_is_left_alone(lab: Lab) -> None:
    """All slots are taken, and messages wait for longer than the limit."""
    with worker(lab, concurrency=1) as busy, lab.shut("look-held-1"):
        lab.submit("look @held")
        lab.wait_gate("look-held-1")
        lab.submit("look @waiting")
        wait_looks(lab)
        assert RESTARTING not in busy.log


def test_an_idle_worker_is_left_alone(lab: Lab) -> None:
    """Nothing waits."""
    with worker(lab) as idle:
        assert lab.client.result(lab.submit("look @a"), timeout_s=30) == "look 1"
        wait_looks(lab)
        assert RESTARTING not in idle.log


def test_a_worker_that_was_told_not_to_consume_is_left_alone(lab: Lab) -> None:
    """``celery control cancel_consumer`` is an operator's wish, whatever waits."""
    with worker(lab, options=("-Q", "celery,other")) as told:
        tell(lab, "cancel_consumer", queue="celery")
        job_id = lab.submit("look @a")
        wait_looks(lab)
        assert RESTARTING not in told.log
        assert lab.ledger.entries("look") == []
        tell(lab, "add_consumer", queue="celery")
        assert lab.client.result(job_id, timeout_s=30) == "look 1"


def test_an_unreachable_broker_is_no_stall() -> None:
    """Reconnecting is the business of Celery; a restart would change nothing."""
    (nobody,) = free_ports(1)
    app = make_app(Settings(redis_url=f"redis://127.0.0.1:{nobody}/0", agents=AGENTS))
    assert look(app, 4).waiting is None
