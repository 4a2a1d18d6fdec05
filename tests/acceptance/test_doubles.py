"""Messages doubled, dropped and late: one runner, one effect, one result (rules 1 and 3)."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from api_client.specs import make_spec
from tests.support.lab import Lab
from tests.support.workers import RunningWorker, eventually

QUEUE = "celery"


def doubled(lab: Lab, times: int) -> int:
    """Put each waiting message into the queue so many times more; returns how many there were."""
    waiting: list[Any] = lab.redis.lrange(QUEUE, 0, -1)
    for raw in waiting:
        for _ in range(times):
            message = json.loads(raw)
            message["properties"]["delivery_tag"] = str(uuid.uuid4())
            lab.redis.lpush(QUEUE, json.dumps(message))
    return len(waiting)


def test_two_workers_given_the_same_hint_at_once(lab: Lab) -> None:
    job_id = str(uuid.uuid4())
    result = lab.send(f"put look @{job_id}", job_id)
    assert doubled(lab, 49) == 1
    with lab.shut(f"put-{job_id}-1"):
        lab.worker("w1@test")
        lab.worker("w2@test")
        lab.wait_gate(f"put-{job_id}-1")
        eventually(lambda: lab.redis.llen(QUEUE) == 0, "every message has been taken up")
        held = lab.record(job_id)
        assert len(lab.events(job_id, "claimed")) == 1
    assert result.get(timeout=30) == "put 1; look 2"
    lab.wait_published(job_id)
    assert len(lab.ledger.entries("put")) == 1
    assert len(lab.events(job_id, "claimed")) == 1, "the others left without a trace"
    assert [entry["step"] for entry in lab.ledger.entries("model")] == [1, 2, 3]
    assert held["record"][b"epoch"] == b"1"


def test_doubles_of_a_finished_job_change_nothing(lab: Lab) -> None:
    lab.worker()
    job_id = lab.submit("put")
    assert lab.client.result(job_id, 30) == "put 1"
    lab.wait_published(job_id)
    before = lab.record(job_id)
    for _ in range(5):
        lab.plain.send_task("agent.plan", args=["put"], task_id=job_id)
    eventually(lambda: lab.redis.llen(QUEUE) == 0, "every message has been taken up")
    other = lab.submit("look")
    assert lab.client.result(other, 30) == "look 1"
    assert lab.record(job_id) == before
    assert len(lab.ledger.entries("put")) == 1


def test_e11_a_message_that_was_lost_is_sent_again_by_a_sweep(lab: Lab) -> None:
    job_id = lab.submit("put")
    lab.redis.delete(QUEUE)
    lab.worker()
    assert lab.client.result(job_id, 30) == "put 1"
    assert len(lab.events(job_id, "claimed")) == 1


def test_doubles_of_a_paused_job_wake_nobody(lab: Lab) -> None:
    lab.worker()
    job_id = lab.submit("ask")
    lab.wait_status(job_id, "paused")
    before = lab.record(job_id)
    for _ in range(5):
        lab.plain.send_task("agent.plan", args=["ask"], task_id=job_id)
    other = lab.submit("look")
    assert lab.client.result(other, 30) == "look 1"
    assert lab.record(job_id) == before
    assert lab.redis.llen(QUEUE) == 0


def wait_ignored(workers: list[RunningWorker], job_id: str, times: int) -> None:
    """Wait until so many messages of a job have been taken and left alone."""
    eventually(
        lambda: sum(worker.count(f"[{job_id}] ignored") for worker in workers) >= times,
        f"{times} messages of {job_id} are ignored",
    )


def test_fifty_doubles_leave_no_trace_while_the_job_runs_and_after_it(lab: Lab) -> None:
    """E1: the other worker, and the same one, find a live owner and leave."""
    workers = [lab.worker("w1@test"), lab.worker("w2@test")]
    with lab.shut("model-m-2"):
        job_id = lab.submit("put @m")
        lab.wait_gate("model-m-2")
        running = lab.record(job_id)
        for _ in range(50):
            lab.hint(job_id)
        wait_ignored(workers, job_id, 50)
        assert lab.record(job_id) == running
    lab.wait_published(job_id)
    ended = lab.record(job_id)
    for _ in range(50):
        lab.hint(job_id)
    wait_ignored(workers, job_id, 100)
    assert lab.record(job_id) == ended
    assert len(lab.ledger.entries("model")) == 2
    assert len(lab.ledger.entries("put")) == 1
    assert lab.states.of(job_id) == ["SUCCESS"]


def test_two_workers_given_one_message_in_the_same_instant(lab: Lab) -> None:
    """One claims, the other leaves; over and over."""
    lab.worker("w1@test")
    lab.worker("w2@test")
    jobs = [f"job-{number}" for number in range(20)]
    together = Barrier(2)

    def hint_all() -> None:
        for job_id in jobs:
            together.wait(30)
            lab.hint(job_id)

    for job_id in jobs:
        lab.store.create(make_spec(job_id=job_id, agent="plan", input=f"put @{job_id}"))
    with ThreadPoolExecutor(2) as two:
        for future in [two.submit(hint_all), two.submit(hint_all)]:
            future.result(timeout=60)
    for job_id in jobs:
        assert lab.wait_published(job_id).epoch == 1
        assert len(lab.events(job_id, "claimed")) == 1
    calls = Counter((entry["tag"], entry["step"]) for entry in lab.ledger.entries("model"))
    assert calls == Counter({(job_id, step): 1 for job_id in jobs for step in (1, 2)})
