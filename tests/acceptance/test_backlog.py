"""More jobs than slots: a queue holds each of them once; what was lost from it is sent again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.lab import Lab
from tests.support.workers import eventually

QUEUE = "celery"
JOBS = 12


@contextmanager
def one_busy_slot(lab: Lab) -> Iterator[str]:
    """A worker whose only slot is taken while the block runs; gives the id of the job there."""
    job_id = str(uuid.uuid4())
    with lab.shut(f"put-{job_id}-1"):
        lab.send(f"put @{job_id}", job_id)
        lab.worker(concurrency=1)
        lab.wait_gate(f"put-{job_id}-1")
        yield job_id


def wait_swept(lab: Lab, job_ids: list[str], times: int = 2) -> None:
    """Wait until sweeps have found each of these jobs so many times."""

    def hints(job_id: str) -> int:
        return int(lab.record(job_id)["record"].get(b"hints", 0))

    eventually(lambda: all(hints(job_id) >= times for job_id in job_ids), "sweeps found all")


def test_hints_are_not_repeated_while_messages_wait(lab: Lab) -> None:
    with one_busy_slot(lab) as first:
        waiting = [lab.submit("look") for _ in range(JOBS)]
        wait_swept(lab, waiting)
        assert lab.redis.llen(QUEUE) == JOBS
    for job_id in (first, *waiting):
        lab.wait_status(job_id, "succeeded")
    assert all(len(lab.events(job_id, "claimed")) == 1 for job_id in waiting)


def test_what_was_lost_behind_others_is_sent_again(lab: Lab) -> None:
    with one_busy_slot(lab):
        lost = [lab.submit("look") for _ in range(JOBS)]
        lab.redis.delete(QUEUE)
        there = lab.submit("look")
        wait_swept(lab, lost)
        assert lab.redis.llen(QUEUE) == 1
    for job_id in (there, *lost):
        lab.wait_status(job_id, "succeeded")


def test_an_empty_queue_is_filled_by_the_next_sweep(lab: Lab) -> None:
    with one_busy_slot(lab):
        lost = [lab.submit("look") for _ in range(JOBS)]
        lab.redis.delete(QUEUE)
        eventually(lambda: lab.redis.llen(QUEUE) > 0, "some are hinted again")
    for job_id in lost:
        lab.wait_status(job_id, "succeeded")
