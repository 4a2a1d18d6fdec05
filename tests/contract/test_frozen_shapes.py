"""Jobs that an earlier version stored are read, and go on, with the program at hand. Rule 6.

The files are never written again once their version is released; see ``tests/fixtures/frozen.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from api_client.contract import (
    SCHEMA_VERSION,
    Answer,
    Happened,
    JobStatus,
    Pause,
    PauseKind,
    Signal,
)
from api_client.errors import StepkeeperError
from api_client.keys import Keys
from tests.fixtures.frozen import FOLDER, STATES, frozen_agent
from worker.inline import InlineWorker
from worker.messages import Transcript
from worker.state import RunState
from worker.store.base import NotClaimed
from worker.store.redis import RedisCheckpointStore

FILES = sorted(FOLDER.glob("v*/*.json"))
IDS = [f"{path.parent.name}-{path.stem}" for path in FILES]
PROVEN = {"steps", "calls", "started", "failures", "pauses", "active_ms", "version"}

each_file = pytest.mark.parametrize("path", FILES, ids=IDS)


class _Patient(RedisCheckpointStore):
    """A store on which waiting takes no time: what waited has been due for long."""

    def skip(self, seconds: float) -> None:
        """Nothing to wait for."""


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        yield client


def restored(client: Any, path: Path) -> str:
    """Put a frozen job into Redis; returns its id."""
    found = json.loads(path.read_text(encoding="utf-8"))
    record = found["record"]
    job_id: str = json.loads(record["spec"])["job_id"]
    keys = Keys(0)
    client.hset(keys.job(job_id), mapping=record)
    for message in found["messages"]:
        client.rpush(keys.messages(job_id), message)
    for event_id, fields in found["trace"]:
        client.xadd(keys.trace(job_id), fields, id=event_id)
    client.zadd(keys.index(JobStatus(record["status"])), {job_id: int(record["since"])})
    if record["status"] != JobStatus.PAUSED:
        client.zadd(keys.due, {job_id: 0})
    return job_id


def test_the_version_at_hand_is_frozen_in_every_state() -> None:
    states = {path.stem for path in FILES if path.parent.name == f"v{SCHEMA_VERSION}"}
    assert states == set(STATES)


@each_file
def test_an_old_job_is_read_as_it_was(client: Any, path: Path) -> None:
    store = RedisCheckpointStore(client)
    job_id = restored(client, path)
    found = json.loads(path.read_text(encoding="utf-8"))
    view = store.read(job_id).model_dump(mode="json")
    assert common(view, found["read"]["view"]) == found["read"]["view"]
    assert [[e.kind, e.data] for e in store.events(job_id)] == found["read"]["events"]
    messages = [json.loads(text) for text in found["messages"]]
    assert store.messages(job_id) == messages
    assert Transcript(messages).stored == messages


def common(now: Any, then: Any) -> Any:
    """What is read now, without the fields that there were not yet."""
    if isinstance(now, dict) and isinstance(then, dict):
        return {name: common(value, then[name]) for name, value in now.items() if name in then}
    return now


def person(pause: Pause) -> Signal:
    if pause.kind is PauseKind.UNKNOWN_OUTCOME:
        return Happened(result="receipt 7")
    return Answer(value="yes")


@each_file
def test_an_old_job_goes_on_to_its_answer(client: Any, path: Path) -> None:
    store: Any = _Patient(client)
    job_id = restored(client, path)
    before = store.messages(job_id)
    assert [hint.spec.job_id for hint in store.sweep(limit=9, grace_ms=1, cap_ms=1)] == (
        [] if path.stem == "paused" else [job_id]
    )
    if path.stem == "paused":
        store.signal(job_id, "p1", Answer(value="yes"), "s1")
    worker = InlineWorker([frozen_agent()], store=store, answers=person)
    worker.run(job_id)
    view = store.read(job_id)
    assert view.published
    assert view.outcome is not None
    if path.stem == "cancelled":
        assert view.outcome.text == "cancelled by anna: nicht mehr nötig"
        return
    assert view.outcome.value == "42"
    after = store.messages(job_id)
    assert after[: len(before)] == before
    assert [m["role"] for m in Transcript(after).view].count("assistant") == 4


@pytest.mark.parametrize("newer", [SCHEMA_VERSION + 1, 99])
def test_a_job_of_a_newer_version_is_left_to_newer_programs(client: Any, newer: int) -> None:
    """As happens while a new version is rolled out: refused by both numbers, and not touched."""
    store = RedisCheckpointStore(client)
    job_id = restored(client, FOLDER / f"v{SCHEMA_VERSION}" / "queued.json")
    client.hset(Keys(0).job(job_id), "v", newer)
    before = client.hgetall(Keys(0).job(job_id))
    wanted = f"schema version {newer}, this program reads up to {SCHEMA_VERSION}; upgrade it"
    with pytest.raises(StepkeeperError, match=wanted):
        store.read(job_id)
    refused = store.claim(job_id, owner="w/", nonce="n", lease_ms=1, max_tries=1)
    assert refused == NotClaimed("newer", str(newer))
    assert client.hgetall(Keys(0).job(job_id)) == before
    assert client.zscore(Keys(0).due, job_id) == 0


def test_frozen_run_states_hold_what_they_are_to_prove() -> None:
    seen: set[str] = set()
    for path in FILES:
        run = json.loads(path.read_text(encoding="utf-8"))["record"].get("run")
        state = RunState.load(None if run is None else run.split(" ", 1)[1])
        assert RunState.load(state.dump()) == state
        seen |= {name for name in PROVEN if getattr(state, name)}
    assert seen == PROVEN
