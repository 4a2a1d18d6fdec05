"""Ends that nobody wished for: cancel and revoke in every state, poison, and what is left after."""

from __future__ import annotations

import re
import uuid
from functools import partial
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError

from api_client.admin import AdminStore
from api_client.contract import JobStatus
from api_client.errors import JobFailed, NotPaused
from api_client.keys import Keys
from tests.support.lab import Lab
from tests.support.workers import eventually
from worker.app import make_app
from worker.settings import Settings


def revoked(lab: Lab, job_id: str) -> None:
    """The job is cancelled, once and for all, and Celery says REVOKED."""
    view = lab.wait_published(job_id)
    assert view.status is JobStatus.CANCELLED
    with pytest.raises(TaskRevokedError):
        lab.plain.AsyncResult(job_id).get(timeout=30)
    assert [event.kind for event in lab.events(job_id)].count("cancelled") == 1
    again = lab.client.cancel(job_id, by="ben")
    assert (again.status, again.pending) == (JobStatus.CANCELLED, False)
    with pytest.raises(NotPaused):
        lab.client.signal(job_id, {"kind": "answer", "value": "late"})


def test_cancel_while_it_is_queued(lab: Lab) -> None:
    job_id = lab.submit("put")
    assert lab.client.cancel(job_id, by="anna").status is JobStatus.CANCELLED
    lab.worker()
    revoked(lab, job_id)
    assert lab.ledger.entries("model") == []


def test_cancel_in_a_model_call(lab: Lab) -> None:
    lab.worker()
    with lab.shut("model-held-1"):
        job_id = lab.submit("put put @held")
        lab.wait_gate("model-held-1")
        assert lab.client.cancel(job_id, by="anna").pending
    revoked(lab, job_id)
    assert lab.ledger.entries("put") == []
    assert len(lab.ledger.entries("model")) == 1


def test_cancel_in_a_tool(lab: Lab) -> None:
    lab.worker()
    with lab.shut("put-held-1"):
        job_id = lab.submit("put put @held")
        lab.wait_gate("put-held-1")
        assert lab.client.cancel(job_id, by="anna").pending
    revoked(lab, job_id)
    assert len(lab.ledger.entries("put")) == 1
    assert len(lab.ledger.entries("model")) == 1


def test_cancel_while_it_is_paused(lab: Lab) -> None:
    lab.worker()
    job_id = lab.submit("ask put")
    lab.wait_status(job_id, "paused")
    assert lab.client.cancel(job_id, by="anna").status is JobStatus.CANCELLED
    revoked(lab, job_id)
    assert lab.ledger.entries("put") == []


def test_a_finished_job_stays_finished(lab: Lab) -> None:
    lab.worker()
    job_id = lab.submit("put")
    assert lab.client.result(job_id, 30) == "put 1"
    lab.wait_published(job_id)
    before = lab.record(job_id)
    assert lab.client.cancel(job_id, by="anna").status is JobStatus.SUCCEEDED
    assert lab.record(job_id) == before


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_celerys_revoke_ends_a_running_and_a_paused_job(lab: Lab, pool: str) -> None:
    lab.worker(pool=pool)
    paused = lab.submit("ask")
    lab.wait_status(paused, "paused")
    with lab.shut("put-held-1"):
        running = lab.submit("put put @held")
        lab.wait_gate("put-held-1")
        lab.plain.control.revoke([paused, running])
        eventually(lambda: lab.view(running).cancel_requested, "the store has been told")
    revoked(lab, running)
    revoked(lab, paused)


def test_a_revoke_while_every_worker_is_down_is_kept(lab: Lab) -> None:
    """By a program that has this package; a bare broadcast reaches nobody then."""
    worker = lab.worker()
    job_id = lab.submit("ask put")
    lab.wait_status(job_id, "paused")
    worker.kill()
    app = make_app(Settings(redis_url=lab.url, agents=("tests.support.agents",)))
    app.control.revoke(job_id)
    assert lab.view(job_id).status is JobStatus.CANCELLED
    lab.worker()
    revoked(lab, job_id)
    assert lab.ledger.entries("put") == []


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_e9_a_poison_job_is_quarantined_and_blocks_nobody(lab: Lab, pool: str) -> None:
    with lab.supervised(pool=pool, env={"STEPKEEPER_MAX_ATTEMPTS": "3"}):
        poison = lab.submit("die")
        others = [lab.submit("put look") for _ in range(5)]
        for job_id in others:
            assert lab.client.result(job_id, 60) == "put 1; look 2"
        view = lab.wait_status(poison, "failed", timeout_s=90)
        assert view.outcome is not None
        assert view.outcome.reason == "poison"
        assert "died 3 times" in view.outcome.text
        with pytest.raises(JobFailed, match="poison"):
            lab.plain.AsyncResult(poison).get(timeout=30)
        assert len(lab.ledger.entries("die")) == 3
        admin = AdminStore.from_url(lab.url)
        assert [job.job_id for job in admin.quarantined()] == [poison]
        released = admin.release(poison)
        assert admin.quarantined() == []
        assert lab.view(released.job_id).spec.input == "die"


def is_owned(lab: Lab, key: str, living: set[str]) -> bool:
    """Whether something that will end keeps a key without an expiry.

    A job's keys are kept by a job that has not ended; an index by members that are jobs; the
    bindings of queues are Celery's own and do not grow with the load.
    """
    if re.match(r"{sk:0}:[jmtl]:", key):
        return key in living
    if key == "{sk:0}:is:lists":  # where ended jobs stand whose keys will expire
        jobs: Any = lab.redis.hkeys(key)
        return all(lab.redis.ttl(Keys(0).job(job.decode())) > 0 for job in jobs)
    if key.startswith("{sk:0}:") and lab.redis.type(key) == b"zset":
        members: Any = lab.redis.zrange(key, 0, -1)
        return all(lab.redis.exists(Keys(0).job(member.decode())) for member in members)
    return key.startswith("_kombu.binding")


def test_nothing_is_left_without_an_expiry_or_an_owner(lab: Lab) -> None:
    lab.worker()
    ended = [lab.submit(words) for words in ("put", "look+put", "refuse", "put pay")]
    paused = lab.submit("ask")
    cancelled = lab.submit("ask")
    lab.wait_status(cancelled, "paused")
    lab.client.cancel(cancelled)
    for job_id in (*ended, cancelled):
        lab.wait_published(job_id)
    lab.wait_status(paused, "paused")
    keys = {key.decode(): lab.redis.ttl(key) for key in lab.redis.scan_iter("*")}
    living = set(Keys(0).of_job(paused))
    unowned = {k for k, ttl in keys.items() if ttl == -1 and not is_owned(lab, k, living)}
    assert unowned == set()
    for job_id in (*ended, cancelled):
        record, messages, trace = (keys.get(key) for key in Keys(0).of_job(job_id))
        lives = {ttl for ttl in (record, messages, trace) if ttl is not None}
        assert -1 not in lives, "an ended job's keys expire"
        assert max(lives) - min(lives) <= 1, "together"
    assert keys[Keys(0).of_job(paused)[0]] == -1


def test_e6_after_the_retention_nothing_of_a_job_is_left_and_a_paused_one_is(lab: Lab) -> None:
    lab.worker()
    paused = lab.submit("ask put", retention_s=1)
    lab.wait_status(paused, "paused")
    baseline = _ours(lab)
    jobs = [lab.submit("put look", retention_s=1) for _ in range(20)]
    for job_id in jobs:
        lab.client.wait(job_id, 60)
    eventually(lambda: _ours(lab) == baseline, "every key of the ended jobs has gone")
    for status in JobStatus:
        left = 1 if status == "paused" else 0
        index = Keys(0).index(status)
        eventually(partial(_has_members, lab, index, left), f"{index} has {left} members")
    lab.client.signal(paused, {"kind": "answer", "value": "yes"})
    assert lab.client.result(paused, 30) == "Answer of a person: yes; put 2"


def _has_members(lab: Lab, index: str, count: int) -> bool:
    return bool(lab.redis.zcard(index) == count)


def _ours(lab: Lab) -> set[bytes]:
    """Keys of single jobs; indexes come and go with their members."""
    return set(lab.redis.scan_iter("{sk:0}:[jmtl]:*"))


def test_a_released_job_keeps_the_keys_of_its_open_calls(lab: Lab) -> None:
    """Rule 5: a call that may have taken effect runs again with the same key."""
    with lab.supervised(env={"STEPKEEPER_MAX_ATTEMPTS": "1"}):
        job_id = str(uuid.uuid4())
        lab.crash(job_id, "before", "observation")
        lab.send(f"put @{job_id}", job_id)
        lab.wait_status(job_id, "failed", timeout_s=60)
        released = AdminStore.from_url(lab.url).release(job_id)
        assert lab.client.result(released.job_id, 60) == "put 1"
        keys = {entry["key"] for entry in lab.ledger.entries("put")}
        assert keys == {f"{job_id}:call_10"}
