"""Where everything must be encrypted: what stands in the clear is refused, by name, and kept."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kombu.exceptions import DecodeError

from api_client import AgentClient
from api_client.admin import AdminStore
from api_client.contract import Answer, JobStatus, Mail, Outcome, Wish
from api_client.errors import InvalidInput, JobUnreadable
from api_client.records import field_text
from api_client.rekeying import RekeyStore
from api_client.sealing import new_key
from tests.contract.acts import (
    BROKEN,
    DONE,
    JOB,
    QUESTION,
    answer,
    bring_to,
    claim,
    commit,
    settle,
    submit,
    take,
)
from tests.contract.worlds import MINUTE, RedisWorld, run_json
from tests.support.ciphers import UseKeys
from worker.celery_config import bare_app, protect
from worker.cli import main
from worker.settings import Settings
from worker.store.base import NotClaimed, Progress, Settlement, Ticket

REQUIRED = "STEPKEEPER_ENCRYPTION_REQUIRED"
KEY = new_key()


@pytest.fixture
def world(redis_url: str, encryption: UseKeys) -> Iterator[RedisWorld]:
    """A store that is empty; everything in it must be encrypted."""
    encryption(KEY, required=True)
    world = RedisWorld(redis_url)
    yield world
    world.close()


def queued(world: RedisWorld) -> None:
    submit(world)
    world.store.message(JOB, Mail(text="hear", by="anna"), "m1")
    world.store.halt(JOB, Wish(by="anna"))


def answered(world: RedisWorld) -> None:
    bring_to(world, JobStatus.PAUSED)
    answer(world, Answer(value="yes", by="anna"))


def running(world: RedisWorld) -> None:
    submit(world)
    commit(world, take(world), 1, "said")
    world.store.cancel(JOB, note="no")


def ended(world: RedisWorld, outcome: Outcome) -> None:
    submit(world)
    status = JobStatus.SUCCEEDED if outcome.ok else JobStatus.FAILED
    settle(world, take(world), 1, status, outcome)


Prepare = Callable[[RedisWorld], None]
FIELDS: list[tuple[str, Prepare]] = [
    ("spec", queued),
    ("mail:1", queued),
    ("halt", queued),
    ("run", answered),
    ("pause", answered),
    ("signal", answered),
    ("cancel", running),
    ("outcome", lambda world: ended(world, DONE)),
    ("outcome", lambda world: ended(world, BROKEN)),
]


@pytest.mark.parametrize(
    ("field", "prepare"), FIELDS, ids=[f"{n}-{f[0]}" for n, f in enumerate(FIELDS)]
)
def test_a_field_in_the_clear_is_refused(
    world: RedisWorld, encryption: UseKeys, field: str, prepare: Prepare
) -> None:
    prepare(world)
    before = world.store.read(JOB)
    key = world._keys(JOB).job(JOB)
    clear = field_text(JOB, field, world.client.hget(key, field))
    world.client.hset(key, field, clear)
    with pytest.raises(JobUnreadable, match=f"job {JOB}: its record .*{REQUIRED}"):
        world.store.read(JOB)
    world.advance(2 * MINUTE)
    tries = world.client.hget(key, "tries")
    found = claim(world)
    assert isinstance(found, NotClaimed)
    assert (found.why, REQUIRED in found.detail) == ("locked", True)
    assert world.client.hget(key, field) == clear.encode()
    assert world.client.hget(key, "tries") == tries
    encryption(KEY)
    assert world.store.read(JOB).spec == before.spec


def test_a_job_in_the_clear_is_not_touched(world: RedisWorld, encryption: UseKeys) -> None:
    encryption("")
    submit(world)
    before = world.raw(JOB)
    encryption(KEY, required=True)
    for _ in range(3):
        assert isinstance(claim(world), NotClaimed)
    assert world.raw(JOB) == before


def test_a_message_in_the_clear_is_refused(world: RedisWorld) -> None:
    submit(world)
    commit(world, take(world), 1, "said")
    clear = json.dumps({"role": "user", "content": "refund it"})
    world.client.lset(world._keys(JOB).messages(JOB), 0, clear)
    with pytest.raises(JobUnreadable, match=f"its message 0 .*{REQUIRED}"):
        world.store.messages(JOB)
    world.advance(2 * MINUTE)
    found = claim(world)
    assert isinstance(found, NotClaimed)
    assert found.why == "locked"


def test_a_record_of_a_trace_in_the_clear_is_marked(world: RedisWorld) -> None:
    submit(world)
    trace = world._keys(JOB).trace(JOB)
    world.client.xadd(trace, {"signal": json.dumps({"kind": "approve", "by": "anna"})})
    world.client.xadd(trace, {"claimed": json.dumps({"worker": "w1", "text": "forged"})})
    take(world)
    events = world.store.events(JOB)
    assert [event.kind for event in events] == ["submitted", "unreadable", "unreadable", "claimed"]
    assert REQUIRED in str(events[1].data)


def test_what_scripts_read_does_not_say_how_a_job_ended(world: RedisWorld) -> None:
    ended(world, BROKEN)
    key = world._keys(JOB).job(JOB)
    stored = json.loads(world.client.hget(key, "outcome"))
    forged = {**stored, "ok": True, "reason": "", "value": "forged"}
    world.client.hset(key, "outcome", json.dumps(forged))
    assert world.store.read(JOB).outcome == BROKEN


def test_an_announcement_in_the_clear_is_put_off_and_holds_up_no_other(
    world: RedisWorld, caplog: pytest.LogCaptureFixture
) -> None:
    for job_id in ("forged", "true"):
        submit(world, job_id)
        held = take(world, job_id)
        settlement = Settlement(JobStatus.PAUSED, QUESTION, channels=("webhook",))
        ticket = Ticket(job_id, held.epoch, held.seq + 1)
        world.store.settle(ticket, Progress(run_json(1), "paused"), settlement)
    post = world._keys(JOB).post_prefix + "forged"
    told = json.loads(world.client.hget(post, "1"))
    world.client.hset(post, "1", json.dumps({**told, "payload": QUESTION.stored()}))
    world.advance(MINUTE)
    assert [post.post_id for post in world.store.fetch_post(8, MINUTE)] == ["true/1"]
    assert "announcement forged/1 is put off" in caplog.text
    (delivery,) = world.store.deliveries("forged")
    assert (delivery.state, delivery.tries) == ("pending", 0)
    assert REQUIRED in delivery.error


def test_what_is_told_of_a_job_in_the_clear_is_marked(world: RedisWorld) -> None:
    submit(world)
    world.store.cancel(JOB, by="anna", note="sent twice")
    forged = {"by": "anna", "note": "forged"}
    told = {"j": JOB, "e": "cancelled", "a": "shop", "d": json.dumps(forged)}
    world.client.xadd(world._keys(JOB).events, told)
    true, marked = world.store.job_events()
    assert true.data == {"by": "anna", "note": "sent twice"}
    assert list(marked.data) == ["unreadable"]
    assert REQUIRED in str(marked.data)


def test_a_piece_of_a_reply_in_the_clear_is_refused(world: RedisWorld) -> None:
    submit(world)
    held = take(world)
    world.store.emit(JOB, held.epoch, [{"step": 1, "kind": "text", "text": "true"}])
    assert [record.text for record in world.store.live(JOB)] == ["true"]
    piece = json.dumps({"step": 1, "kind": "text", "text": "forged"})
    world.client.xadd(world._keys(JOB).live(JOB), {"d": piece})
    with pytest.raises(JobUnreadable, match=f"its live stream .*{REQUIRED}"):
        world.store.live(JOB)


def test_a_result_in_the_clear_is_refused(redis_url: str, encryption: UseKeys) -> None:
    encryption(KEY)
    settings = Settings(redis_url=redis_url)
    app: Any = bare_app(settings)
    backend = app.backend
    for job_id, value, write in (("t", "forged", json.dumps), ("sealed", "true", backend.encode)):
        meta = {"status": "SUCCESS", "result": value, "task_id": job_id, "children": []}
        backend.client.set(backend.get_key_for_task(job_id), write(meta))
    assert app.backend.get_result("t") == "forged"
    encryption(KEY, required=True)
    strict: Any = bare_app(settings)
    assert strict.backend.get_result("sealed") == "true"
    with pytest.raises(DecodeError, match=REQUIRED):
        strict.backend.get_result("t")


def test_first_the_keys_then_rekey_then_required(
    world: RedisWorld, redis_url: str, encryption: UseKeys, capsys: pytest.CaptureFixture[str]
) -> None:
    encryption("")
    for status in JobStatus:
        bring_to(world, status, f"job-{status}")
    encryption(KEY, required=True)
    assert main(["rekey", "--redis-url", redis_url]) == 1  # it does not seal what it cannot trust
    assert REQUIRED in capsys.readouterr().out
    assert RekeyStore.from_url(redis_url).rekey().changed == 0
    encryption(KEY)
    assert main(["rekey", "--redis-url", redis_url]) == 0
    encryption(KEY, required=True)
    for status in JobStatus:
        assert world.store.read(f"job-{status}").status is status
        events = world.store.events(f"job-{status}")
        assert "unreadable" not in [event.kind for event in events]
    assert RekeyStore.from_url(redis_url).rekey().unreadable == []
    assert take(world, "job-queued").tries == 1


def test_required_without_keys_is_refused(redis_url: str, encryption: UseKeys) -> None:
    encryption("", required=True)
    with pytest.raises(InvalidInput, match=f"{REQUIRED} is set, and STEPKEEPER_ENCRYPTION_KEYS is"):
        AgentClient(redis_url).submit("shop", "buy", check_agent=False)
    with pytest.raises(InvalidInput, match=REQUIRED):
        protect(bare_app(Settings(redis_url=redis_url)))


def test_nothing_of_a_job_that_goes_on_from_another_is_in_the_clear(
    world: RedisWorld, redis_url: str
) -> None:
    ended(world, DONE)
    spec = AdminStore.from_url(redis_url).fork(JOB)
    assert RekeyStore.from_url(redis_url).rekey().changed == 0
    assert [event.kind for event in world.store.events(spec.job_id)] == ["submitted"]


def test_a_list_goes_on_beside_a_job_in_the_clear(
    world: RedisWorld, encryption: UseKeys, caplog: pytest.LogCaptureFixture
) -> None:
    encryption("")
    submit(world, "forged")
    encryption(KEY, required=True)
    submit(world, "true")
    page = world.store.jobs(JobStatus.QUEUED)
    assert [view.job_id for view in page] == ["true"]
    assert [one.job_id for one in page.unreadable] == ["forged"]
    with caplog.at_level(logging.ERROR):
        world.advance(MINUTE)
        hints = world.store.sweep(limit=10, grace_ms=1, cap_ms=1)
    assert [hint.spec.job_id for hint in hints] == ["true"]
    assert REQUIRED in caplog.text
