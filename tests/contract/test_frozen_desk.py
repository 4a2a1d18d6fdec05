"""Waiting jobs as earlier versions stored them are read, and go on. Rule 6.

The texts stand here as they were written; they are never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from api_client.contract import Answer, JobStatus, Mail, Pause
from api_client.inbox import InboxFilter
from api_client.keys import Keys
from worker.store.base import Claimed
from worker.store.redis import RedisCheckpointStore

JOB = "job-1"
PLAIN = (
    '{"id":"p1","kind":"approval","question":"May I? 可以嗎？","accepts":["approve","reject"],'
    '"action":{"call_id":"c1","tool":"refund","arguments":{"euro":50}},"answer_schema":null,'
    '"details":{},"step":1,"created":0,"deadline":null}'
)
TIMED = (
    '{"id":"p2","kind":"hand_to_human","question":"May I?","accepts":["answer","finish","fail"],'
    '"step":3,"labels":["desk"],"timetable":[{"after_s":60.0,"do":"remind"},'
    '{"after_s":3600.0,"do":"escalate","labels":["leads"]},'
    '{"after_s":1800.0,"do":"decide","signal":{"value":"no","kind":"answer","by":"deadline"}}],'
    '"schemas":{"answer":{"value":{"type":"boolean"}}}}'
)
RECORD = {
    "v": "1",
    "spec": '{"job_id":"job-1","agent":"shop","input":"buy"}',
    "agent": "shop",
    "ttl": "3600",
    "created": "1700000000000",
    "status": "paused",
    "since": "1700000001000",
    "epoch": "1",
    "tries": "0",
    "hints": "0",
    "run": '3 {"u":[10,5]}',
}
WAITING = {
    "kept": "2",
    "asked": "1700003601000",
    "labels": '["leads"]',
    "facets": '["agent:shop","kind:hand_to_human","tenant:","label:leads"]',
    "mail": "3",
    "heard": "1",
    "mail:2": '{"text":"Be quick.","by":"anna"}',
    "mail:3": '{"text":"二","note":"why"}',
    "mail_id": "m3",
}


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    """An empty Redis."""
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        yield client


def restored(client: Any, record: dict[str, str], due: int | None = None) -> RedisCheckpointStore:
    """A store that holds the record."""
    keys = Keys(0)
    client.hset(keys.job(JOB), mapping=record)
    client.zadd(keys.index(JobStatus.PAUSED), {JOB: int(record["since"])})
    if due is not None:
        client.zadd(keys.due, {JOB: due})
    return RedisCheckpointStore(client)


def test_a_pause_from_before_there_were_labels_and_indexes(client: Any) -> None:
    store = restored(client, {**RECORD, "pause": PLAIN})
    pause = store.read(JOB).pause
    assert pause is not None
    assert (pause.labels, pause.timetable, pause.deadline) == ((), (), None)
    assert pause.answer_schema.keys() == {"approve", "reject"}
    assert [view.job_id for view in store.inbox(InboxFilter())] == [JOB]
    assert store.sweep(limit=10, grace_ms=1000, cap_ms=1000) == []
    store.cancel(JOB)
    assert store.read(JOB).status is JobStatus.CANCELLED


def test_an_escalated_pause_with_messages_that_wait(client: Any) -> None:
    store = restored(client, {**RECORD, **WAITING, "pause": TIMED}, due=1_700_005_401_000)
    view = store.read(JOB)
    assert view.pause is not None
    assert (view.pause.labels, view.pause.kept, view.unheard) == (("leads",), 2, 2)
    assert view.pause.deadline == 1_700_005_401_000
    assert view.pause.answer_schema["answer"]["properties"]["value"] == {"type": "boolean"}
    store.message(JOB, Mail(text="二"), "m3")
    assert store.read(JOB).unheard == 2, "its last message is known again"
    (hint,) = store.sweep(limit=10, grace_ms=1000, cap_ms=1000)
    assert hint.status is JobStatus.PAUSED
    store.signal(JOB, "p2", Answer(value=True), "s1", ["leads"])
    claim = store.claim(JOB, owner="w/b/1/", nonce="n", lease_ms=1000, max_tries=5)
    assert isinstance(claim, Claimed)
    assert claim.pause == Pause.model_validate_json(TIMED)
    assert [(mail.number, mail.text) for mail in claim.mail] == [(2, "Be quick."), (3, "二")]
    assert client.hexists(Keys(0).job(JOB), "facets") == 0
