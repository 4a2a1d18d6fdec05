"""Jobs with packed texts that an earlier version stored are read, and go on. Rule 6."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from api_client.codec import MARK
from api_client.contract import Answer, JobStatus
from api_client.keys import Keys
from tests.fixtures.frozen import FOLDER
from tests.fixtures.packed import JOB, LONG, packed_agent, raw, spec
from worker.inline import InlineWorker
from worker.store.redis import RedisCheckpointStore

FILES = sorted(FOLDER.glob("packed-v*.json"))


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        yield client


def restored(client: Any, path: Path) -> list[bytes]:
    """Put a frozen job into Redis; returns all its values."""
    found, keys = json.loads(path.read_text(encoding="utf-8")), Keys(0)
    record = {name: raw(value) for name, value in found["record"].items()}
    messages = [raw(item) for item in found["messages"]]
    client.hset(keys.job(JOB), mapping=record)
    client.rpush(keys.messages(JOB), *messages)
    for event_id, fields in found["trace"]:
        client.xadd(keys.trace(JOB), {n: raw(v) for n, v in fields.items()}, id=event_id)
    client.zadd(keys.index(JobStatus.QUEUED), {JOB: int(record["since"])})
    client.zadd(keys.due, {JOB: 0})
    return [*record.values(), *messages]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_an_old_job_is_read_and_goes_on(client: Any, path: Path) -> None:
    values = restored(client, path)
    assert sum(value.startswith(MARK) for value in values) == 5  # spec, signal, task, reply, look
    store: Any = RedisCheckpointStore(client)
    assert store.read(JOB).spec == spec()
    task, observation = store.messages(JOB)[1], store.messages(JOB)[3]
    assert json.loads(task["content"]) == {"Aufgabe": LONG}
    assert observation["content"] == LONG + LONG[:3]
    [signal] = [event.data for event in store.events(JOB) if event.kind == "signal"]
    assert signal["value"] == LONG
    InlineWorker([packed_agent()], store=store, answers=lambda _: Answer(value="x")).run(JOB)
    outcome = store.read(JOB).outcome
    assert outcome.value == f"Antwort: {LONG}"
    assert LONG in str(store.messages(JOB)[-2]["content"])


def test_there_is_one() -> None:
    assert FILES
