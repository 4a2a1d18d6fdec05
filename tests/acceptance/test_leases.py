"""Moving again after a death, calls that outlast every time-out of the broker, and deploys."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tests.support.lab import Lab

LEASE_S = 3.0
HELD_S = float(os.environ.get("TEST_LONG_CALL_S", "7"))
VISIBILITY_S = float(os.environ.get("TEST_VISIBILITY_TIMEOUT_S", "2"))
"""Ten minutes against twenty seconds with TEST_LONG_CALL_S=600 TEST_VISIBILITY_TIMEOUT_S=20."""


def moved_after_s(lab: Lab, job_id: str, died_at_ms: int) -> float:
    """Seconds between the death and the second claim, on Redis's clock."""
    return (lab.wait_event(job_id, "claimed", 2).at - died_at_ms) / 1000


def now_ms(lab: Lab) -> int:
    """Redis's clock, as the trace has it."""
    seconds, micros = lab.redis.time()
    return int(seconds) * 1000 + int(micros) // 1000


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_e14_a_worker_restarted_under_its_name_goes_on_at_once(lab: Lab, pool: str) -> None:
    """The best of three, because other tests run on the same cores and a start is all computing.

    The lease is a minute: nothing but the name lets the new worker go on.
    """
    env = {"STEPKEEPER_LEASE_S": "60"}
    worker = lab.worker(pool=pool, env=env)
    seconds = []
    for number in range(3):
        tag = f"held{number}"
        with lab.shut(f"put-{tag}-1"):
            job_id = lab.submit(f"put look @{tag}")
            lab.wait_gate(f"put-{tag}-1")
            worker.kill()
            died = now_ms(lab)
        worker = lab.worker(pool=pool, env=env)
        seconds.append(moved_after_s(lab, job_id, died))
        assert lab.client.result(job_id, 30) == "put 1; look 2"
        if min(seconds) <= 3.0:
            return
    raise AssertionError(f"moving again after {seconds} s, never within 3 s")


def test_another_worker_goes_on_within_the_lease(lab: Lab) -> None:
    lab.worker("w2@test")
    lab.plain.control.cancel_consumer("celery", destination=["w2@test"], reply=True, timeout=5)
    first = lab.worker("w1@test")
    with lab.shut("put-held-1"):
        job_id = lab.submit("put look @held")
        lab.wait_gate("put-held-1")
        lab.plain.control.add_consumer("celery", destination=["w2@test"], reply=True, timeout=5)
        first.kill()
        died = now_ms(lab)
    assert moved_after_s(lab, job_id, died) <= LEASE_S + 2.0
    assert lab.client.result(job_id, 30) == "put 1; look 2"


def test_e1_calls_that_outlast_the_visibility_timeout_run_once(lab: Lab) -> None:
    env = {"TEST_VISIBILITY_TIMEOUT_S": str(VISIBILITY_S)}
    lab.worker("w1@test", env=env)
    lab.worker("w2@test", env=env)
    with lab.shut("model-a-1"), lab.shut("put-b-1"):
        asking, acting = lab.submit("look @a"), lab.submit("put @b")
        lab.wait_gate("model-a-1")
        lab.wait_gate("put-b-1")
        threading.Event().wait(HELD_S)  # what is tested is that time passes and nothing happens
    assert lab.client.result(asking, 30) == "look 1"
    assert lab.client.result(acting, 30) == "put 1"
    assert [e["step"] for e in lab.ledger.entries("model") if e["tag"] == "a"] == [1, 2]
    assert len(lab.ledger.entries("put")) == 1
    for job_id in (asking, acting):
        assert len(lab.events(job_id, "claimed")) == 1


def test_e15_a_frozen_owner_that_wakes_up_late_is_refused(lab: Lab) -> None:
    frozen = lab.worker("w1@test")
    with lab.shut("put-held-1"):
        job_id = lab.submit("put put @held")
        lab.wait_gate("put-held-1")
        frozen.send_group(signal.SIGSTOP)
        lab.worker("w2@test")
        lab.wait_event(job_id, "claimed", 2)
        lab.wait_gate("put-held-1", 2)
    assert lab.client.result(job_id, 30) == "put 1; put 2"
    lab.wait_published(job_id)
    before = lab.record(job_id)
    frozen.send_group(signal.SIGCONT)
    frozen.wait_line("left why=fenced")
    other = lab.submit("look")
    assert lab.client.result(other, 30) == "look 1"
    assert lab.record(job_id) == before
    keys = [entry["key"] for entry in lab.ledger.entries("put") if entry["x"] == 1]
    assert len(keys) == 2
    assert len(set(keys)) == 1, "the repeated call has the same idempotency key"


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_h3_a_rolling_restart_under_load_fails_no_job(lab: Lab, pool: str) -> None:
    workers = {name: lab.worker(name, pool=pool) for name in ("w1@test", "w2@test")}
    jobs = [lab.submit("put look put look put") for _ in range(40)]
    for _ in range(2):
        for name in workers:
            workers[name].send(signal.SIGTERM)
            assert workers[name].wait_dead() == 0
            workers[name] = lab.worker(name, pool=pool)
    for job_id in jobs:
        assert lab.client.result(job_id, 60) == "put 1; look 2; put 3; look 4; put 5"
    done = [(entry["job"], entry["x"]) for entry in lab.ledger.entries("put")]
    assert len(done) == len(set(done)) == 120, "every side effect once"
