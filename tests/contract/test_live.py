"""The live stream of a job, on every store: bounded, fenced, and gone before the job is."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.admin import AdminStore
from api_client.contract import JobStatus
from api_client.errors import InvalidInput
from api_client.live import LIVE_LENGTH, LIVE_TTL_S, LiveRecord
from tests.contract.acts import DONE, JOB, LEASE, settle, submit, take
from tests.contract.worlds import RedisWorld, World

SECOND = 1000
LIVE_TTL = LIVE_TTL_S * SECOND


def piece(text: str, step: int = 1) -> dict[str, Any]:
    return {"step": step, "kind": "text", "text": text}


def texts(world: World, after: str = "0", **how: Any) -> list[str]:
    return [record.text for record in world.store.live(JOB, after, **how)]


def test_pieces_are_read_in_order_and_from_any_offset(world: World) -> None:
    submit(world)
    epoch = take(world).epoch
    call = {"step": 2, "kind": "call", "text": '{"a', "call": 1, "tool": "add"}
    assert world.store.emit(JOB, epoch, [piece("Grüße "), piece("你好")]) == "committed"
    assert world.store.emit(JOB, epoch, [call]) == "committed"
    records = world.store.live(JOB)
    assert [r.text for r in records] == ["Grüße ", "你好", '{"a']
    assert records[2] == LiveRecord(
        id=records[2].id, step=2, kind="call", text='{"a', call=1, tool="add"
    )
    assert world.store.live(JOB, records[0].id) == records[1:]
    assert texts(world, count=1) == ["Grüße "]
    assert texts(world, count=0) == []


def test_pieces_change_nothing_of_the_job(world: World) -> None:
    submit(world)
    epoch = take(world).epoch
    view, events = world.store.read(JOB), world.store.events(JOB)
    world.store.emit(JOB, epoch, [piece("x")])
    assert (world.store.read(JOB), world.store.events(JOB)) == (view, events)
    assert world.store.messages(JOB) == []


def test_rule_3_an_old_epoch_shows_nothing(world: World) -> None:
    submit(world)
    old = take(world).epoch
    world.advance(LEASE + SECOND)
    new = take(world).epoch
    assert world.store.emit(JOB, old, [piece("late")]) == "fenced"
    assert world.store.emit(JOB, new, [piece("on time")]) == "committed"
    assert texts(world) == ["on time"]


def test_a_cancel_is_told_and_the_piece_is_shown(world: World) -> None:
    submit(world)
    epoch = take(world).epoch
    world.store.cancel(JOB)
    assert world.store.emit(JOB, epoch, [piece("a")]) == "cancel"
    assert world.store.emit(JOB, epoch, []) == "cancel"
    assert texts(world) == ["a"]


def test_to_ask_writes_nothing(world: World) -> None:
    submit(world)
    epoch = take(world).epoch
    left = world.left_behind()
    assert world.store.emit(JOB, epoch, []) == "committed"
    assert world.left_behind() == left


@pytest.mark.parametrize("job_id", ["job-2", "no id at all!"])
def test_an_unknown_job_has_none(world: World, job_id: str) -> None:
    assert world.store.live(job_id) == []


def test_nothing_is_shown_of_a_job_that_is_gone(world: World) -> None:
    assert world.store.emit("job-2", 1, [piece("x")]) == "fenced"
    assert world.left_behind() == []


def test_what_is_no_offset_is_refused(world: World) -> None:
    with pytest.raises(InvalidInput):
        world.store.live(JOB, "yesterday")


def test_a_stream_is_forgotten_some_time_after_its_last_piece(world: World) -> None:
    submit(world)
    epoch = take(world).epoch
    world.store.emit(JOB, epoch, [piece("a")])
    world.advance(LIVE_TTL - 60 * SECOND)
    world.store.emit(JOB, epoch, [piece("b")])
    world.advance(LIVE_TTL - 60 * SECOND)
    assert texts(world) == ["a", "b"]
    world.advance(120 * SECOND)
    assert texts(world) == []
    world.store.emit(JOB, epoch, [piece("c")])
    assert texts(world) == ["c"]


def test_the_tail_may_come_when_the_job_has_ended(world: World) -> None:
    submit(world)
    held = take(world)
    settle(world, held, 1, JobStatus.SUCCEEDED, DONE)
    assert world.store.emit(JOB, held.epoch, [piece("the end")]) == "committed"
    assert texts(world) == ["the end"]


@pytest.mark.parametrize("late", [False, True])
def test_a_stream_does_not_outlive_its_job(world: World, late: bool) -> None:
    submit(world, retention_s=60)
    held = take(world)
    world.store.emit(JOB, held.epoch, [piece("a")])
    settle(world, held, 1, JobStatus.SUCCEEDED, DONE)
    world.store.published(JOB)
    if late:
        world.store.emit(JOB, held.epoch, [piece("b")])
    assert texts(world)[0] == "a"
    world.advance(61 * SECOND)
    world.store.sweep(limit=10, grace_ms=1000, cap_ms=1000)
    assert texts(world) == []
    assert world.left_behind() == []


def test_a_stream_is_bounded(world: World) -> None:
    submit(world)
    epoch = take(world).epoch
    for _ in range(3):
        world.store.emit(JOB, epoch, [piece(str(n)) for n in range(5000)])
    kept = texts(world, count=100_000)
    assert LIVE_LENGTH <= len(kept) < LIVE_LENGTH + 1000
    assert kept[-1] == "4999"


def test_a_purged_job_leaves_no_stream(redis_url: str) -> None:
    world = RedisWorld(redis_url)
    submit(world)
    held = take(world)
    world.store.emit(JOB, held.epoch, [piece("a")])
    settle(world, held, 1, JobStatus.SUCCEEDED, DONE)
    world.store.published(JOB)
    AdminStore(world.client).purge(JOB)
    assert world.left_behind() == []
    world.close()
