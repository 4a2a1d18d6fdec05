"""Jobs of large texts, as they stand in Redis and as every reader sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from api_client.admin import AdminStore
from api_client.client import AgentClient
from api_client.codec import MARK
from api_client.contract import Answer, JobSpec, JobStatus, Mail, Outcome
from api_client.keys import Keys
from worker.agent import Agent
from worker.cli import main
from worker.inline import InlineWorker
from worker.models import ScriptedModel
from worker.models.scripted import act, say
from worker.state import RunState
from worker.store.base import Progress, Settlement, Ticket
from worker.store.redis import RedisCheckpointStore
from worker.tools import hand_to_human, tool

LONG = "Wo ist Bestellung 1187? 在哪里 " * 2000
JOB = "job-large"


@tool(effects="safe")
def look(x: str) -> str:
    """Read."""
    return LONG


AGENT = Agent(
    name="large",
    goal="g",
    tools=[look, hand_to_human],
    max_observation=1_000_000,
    model=ScriptedModel(
        [
            act("I look.", ("look", {"x": LONG})),
            act("", ("hand_to_human", {"reason": "?"})),
            say(LONG),
        ]
    ),
)


class _Store(RedisCheckpointStore):
    def skip(self, seconds: float) -> None:
        """Nothing to wait for."""


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        yield client


@pytest.fixture
def store(client: Any) -> Any:
    return _Store(client)


def spec() -> JobSpec:
    return JobSpec(job_id=JOB, agent="large", input=LONG, metadata={"note": LONG[:90_000]})


def paused(store: Any) -> InlineWorker:
    store.create(spec())
    worker = InlineWorker([AGENT], store=store)
    worker.run(JOB)
    assert store.read(JOB).status is JobStatus.PAUSED
    return worker


def finish(store: Any, worker: InlineWorker) -> None:
    store.message(JOB, Mail(text=LONG[:90_000], by="anna"), "m1")
    store.signal(JOB, "p1", Answer(value=LONG, by="anna"), "s1")
    worker.run(JOB)


def test_large_texts_are_stored_packed_and_small_ones_as_they_are(client: Any, store: Any) -> None:
    finish(store, paused(store))
    keys = Keys(0)
    messages = client.lrange(keys.messages(JOB), 0, -1)
    kinds = [message.startswith(MARK) for message in messages]
    assert kinds == [False, True, True, True, False, True, True, True]
    record = client.hgetall(keys.job(JOB))
    assert {name for name, value in record.items() if value.startswith(MARK)} == {
        b"spec",
        b"outcome",
    }
    whole = sum(map(len, messages)) + sum(map(len, record.values()))
    assert whole < 8 * len(LONG.encode()) / 20


def test_whoever_reads_sees_the_texts(client: Any, store: Any, redis_url: str) -> None:
    worker = paused(store)
    assert store.create(spec()).spec == spec()
    finish(store, worker)
    view = AgentClient(redis_url).get(JOB)
    assert view.spec == spec()
    assert view.outcome is not None
    assert view.outcome.value == LONG
    [_, task, reply, observation, *_, answer] = store.messages(JOB)
    assert task["content"] == LONG
    assert json.loads(reply["tool_calls"][0]["function"]["arguments"]) == {"x": LONG}
    assert observation["content"] == LONG
    assert answer["content"] == LONG
    events = {event.kind: event.data for event in store.events(JOB)}
    assert events["signal"]["value"] == LONG
    assert events["message"]["text"] == LONG[:90_000]
    assert next(iter(store.jobs(JobStatus.SUCCEEDED))).spec == spec()


def test_a_fork_takes_them_over_and_is_hinted(client: Any, store: Any) -> None:
    finish(store, paused(store))
    admin = AdminStore(client)
    new = admin.fork(JOB, new_id="other")
    assert new.input == LONG
    assert admin.messages("other") == store.messages(JOB)
    client.zadd(Keys(0).due, {"other": 0})
    [hint] = store.sweep(limit=9, grace_ms=1, cap_ms=1)
    assert hint.spec == new
    admin.purge(JOB, force=True)
    assert not client.exists(Keys(0).messages(JOB))


def test_an_outcome_is_announced_whole_on_every_channel(store: Any) -> None:
    store.create(spec())
    worker = InlineWorker([AGENT], store=store, answers=lambda _: Answer(value="yes"))
    worker.run(JOB)
    store.abandon("", job_id=JOB)
    fresh = JobSpec(job_id="again", agent="large", input="x")
    store.create(fresh)
    claimed = store.claim("again", owner="o/", nonce="n", lease_ms=9999, max_tries=3)
    store.settle(
        Ticket("again", claimed.epoch, 1),
        Progress(RunState().dump(), "finished"),
        Settlement(JobStatus.SUCCEEDED, Outcome(ok=True, value=LONG)),
    )
    store.published("again", ["webhook", "task"])
    posts = store.fetch_post(9, 1000)
    assert {post.channel for post in posts} == {"webhook", "task"}
    assert all(json.loads(post.payload)["value"] == LONG for post in posts)
    assert {delivery.channel for delivery in store.deliveries("again")} == {"webhook", "task"}


def test_a_failure_of_many_words_is_read_by_scripts(store: Any) -> None:
    store.create(JobSpec(job_id="f", agent="large", input="x"))
    claimed = store.claim("f", owner="o/", nonce="n", lease_ms=9999, max_tries=3)
    status = store.settle(
        Ticket("f", claimed.epoch, 1),
        Progress(RunState().dump(), "failed", {"text": LONG}),
        Settlement(JobStatus.FAILED, Outcome(ok=False, reason="x", text=LONG)),
    )
    assert status is JobStatus.FAILED
    assert store.read("f").outcome.text == LONG
    assert store.events("f")[-1].data == {"text": LONG}


def test_the_command_shows_them(
    store: Any, redis_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(store, paused(store))
    monkeypatch.setenv("STEPKEEPER_REDIS_URL", redis_url)
    assert main(["trace", JOB, "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert any(LONG in json.dumps(record, ensure_ascii=False) for record in records)


def test_what_a_newer_version_packed_is_named_and_breaks_no_list(client: Any, store: Any) -> None:
    store.create(spec())
    store.create(JobSpec(job_id="small", agent="large", input="x"))
    client.hset(Keys(0).job(JOB), "spec", b"\x01qsecret")
    page = store.jobs(JobStatus.QUEUED)
    assert [view.job_id for view in page] == ["small"]
    [broken] = page.unreadable
    assert broken.job_id == JOB
    assert "form b'q', which this version does not know" in broken.reason
    assert "secret" not in broken.reason
