"""Making progress durable, on every store. Rules 2, 3 and 4."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import JobStatus, Outcome, Pause
from tests.contract.acts import (
    BROKEN,
    DONE,
    JOB,
    LEASE,
    QUESTION,
    answer,
    claim,
    commit,
    kinds,
    settle,
    submit,
    take,
)
from tests.contract.worlds import MINUTE, World
from worker.store.base import NotClaimed, Progress, Ticket

PAYLOADS: list[tuple[JobStatus, Pause | Outcome | None]] = [
    (JobStatus.PAUSED, QUESTION),
    (JobStatus.WAITING, None),
    (JobStatus.QUEUED, None),
    (JobStatus.SUCCEEDED, DONE),
    (JobStatus.FAILED, BROKEN),
]
ENDINGS = pytest.mark.parametrize(("status", "payload"), PAYLOADS, ids=[s for s, _ in PAYLOADS])


def contents(world: World) -> list[Any]:
    return [message["content"] for message in world.store.messages(JOB)]


def test_commits_append_in_order(world: World) -> None:
    submit(world)
    held = take(world)
    assert commit(world, held, 1, "a", "b") == "committed"
    assert commit(world, held, 2) == "committed"
    assert commit(world, held, 3, "c") == "committed"
    assert contents(world) == ["a", "b", "c"]
    assert kinds(world) == ["submitted", "claimed", "reply", "reply", "reply"]
    assert [e.data for e in world.store.events(JOB)][2:] == [{"i": 1}, {"i": 2}, {"i": 3}]


@pytest.mark.parametrize("number", [1, 2])
def test_a_commit_whose_reply_was_lost_is_not_written_twice(world: World, number: int) -> None:
    submit(world)
    held = take(world)
    for earlier in range(1, number):
        commit(world, held, earlier, "earlier")
    assert commit(world, held, number, "a") == "committed"
    before = world.raw(JOB)
    assert commit(world, held, number, "a") == "committed"
    assert world.raw(JOB) == before


@pytest.mark.parametrize("number", [-1, 0, 1, 4, 99])
def test_a_commit_out_of_turn_is_refused(world: World, number: int) -> None:
    submit(world)
    held = take(world)
    commit(world, held, 1, "a")
    commit(world, held, 2, "b")
    before = world.raw(JOB)
    assert commit(world, held, number, "x") == "fenced"
    assert settle(world, held, number, JobStatus.SUCCEEDED, DONE, "x") is None
    assert world.raw(JOB) == before


def test_a_commit_tells_of_a_cancel_and_is_made_all_the_same(world: World) -> None:
    submit(world)
    held = take(world)
    world.store.cancel(JOB)
    assert commit(world, held, 1, "a") == "cancel"
    assert commit(world, held, 1, "a") == "cancel"
    assert commit(world, held, 2, "b") == "cancel"
    assert contents(world) == ["a", "b"]


@ENDINGS
def test_settling(world: World, status: JobStatus, payload: Any) -> None:
    submit(world)
    held = take(world)
    commit(world, held, 1, "a")
    assert settle(world, held, 2, status, payload, "b", "c", delay_ms=3 * MINUTE) is status
    assert contents(world) == ["a", "b", "c"]
    view = world.store.read(JOB)
    assert (view.status, view.steps, view.tries) == (status, 2, 0)
    assert view.outcome == (payload if isinstance(payload, Outcome) else None)
    assert (view.pause is None) == (status is not JobStatus.PAUSED)
    assert (view.due is None) == (status is not JobStatus.WAITING)
    assert (view.worker is None) == (not status.ended)
    assert kinds(world)[-1] == status.value


@ENDINGS
def test_when_a_settled_job_is_due(world: World, status: JobStatus, payload: Any) -> None:
    submit(world)
    settle(world, take(world), 1, status, payload, delay_ms=3 * MINUTE)
    due = world.due_in(JOB)
    if status is JobStatus.PAUSED:
        assert due is None
    else:
        assert due is not None
        assert 2 * MINUTE < due <= 3 * MINUTE
    assert (world.lease_left(JOB) > 0) == status.ended


@ENDINGS
def test_settling_again_changes_nothing(world: World, status: JobStatus, payload: Any) -> None:
    """The reply of the first time was lost."""
    submit(world)
    held = take(world)
    settle(world, held, 1, status, payload, "a", delay_ms=MINUTE)
    before = world.raw(JOB)
    assert settle(world, held, 1, status, payload, "a", delay_ms=MINUTE) is status
    assert world.raw(JOB) == before


@ENDINGS
def test_nothing_is_committed_behind_the_end(world: World, status: JobStatus, payload: Any) -> None:
    submit(world)
    held = take(world)
    settle(world, held, 1, status, payload, delay_ms=MINUTE)
    before = world.raw(JOB)
    for number in (1, 2):
        assert commit(world, held, number, "x") == "fenced"
    for other, its in PAYLOADS:
        assert settle(world, held, 2, other, its, "x") is None
    assert world.raw(JOB) == before


def test_settling_again_after_a_person_has_answered(world: World) -> None:
    """The pause was announced by its trace, and answered before its runner knew of it."""
    submit(world)
    held = take(world)
    settle(world, held, 1, JobStatus.PAUSED, QUESTION)
    answer(world)
    before = world.raw(JOB)
    assert settle(world, held, 1, JobStatus.PAUSED, QUESTION) is JobStatus.QUEUED
    assert world.raw(JOB) == before


@ENDINGS
def test_rule_13_a_cancel_wins_over_every_other_end(
    world: World, status: JobStatus, payload: Any
) -> None:
    submit(world)
    held = take(world)
    world.store.cancel(JOB, by="anna", note="zu spät")
    made = settle(world, held, 1, status, payload, "a", delay_ms=MINUTE)
    assert made is JobStatus.CANCELLED
    view = world.store.read(JOB)
    assert view.status is JobStatus.CANCELLED
    text = "cancelled by anna: zu spät"
    assert view.outcome == Outcome(ok=False, reason="cancelled", text=text)
    assert (view.pause, view.due) == (None, None)
    assert contents(world) == ["a"]
    assert kinds(world)[-2:] == ["cancel", "cancelled"]
    assert settle(world, held, 1, status, payload, "a") is JobStatus.CANCELLED


def test_a_job_that_was_handed_over_goes_on_where_it_was(world: World) -> None:
    submit(world)
    first = take(world)
    commit(world, first, 1, "a")
    settle(world, first, 2, JobStatus.QUEUED, None, "b")
    second = take(world, owner="w2/boot/1/")
    assert (second.epoch, second.seq, second.tries) == (2, 2, 1)
    assert commit(world, second, 1, "c") == "committed"
    assert contents(world) == ["a", "b", "c"]


def test_a_job_that_waits_is_taken_when_its_time_has_come(world: World) -> None:
    submit(world)
    settle(world, take(world), 1, JobStatus.WAITING, delay_ms=3 * MINUTE)
    world.advance(2 * MINUTE)
    refused = claim(world)
    assert isinstance(refused, NotClaimed)
    assert refused.why == "not_due"
    assert refused.detail == str(world.store.read(JOB).due)
    world.advance(MINUTE)
    take(world)


def test_a_persons_answer_stays_until_a_commit_has_taken_it_up(world: World) -> None:
    """Rule 6: a worker that dies in between leaves the decision for the next one."""
    submit(world)
    settle(world, take(world), 1, JobStatus.PAUSED, QUESTION)
    answer(world)
    first = take(world)
    assert first.signal is not None
    assert first.pause is not None
    assert (first.signal.kind, first.pause.id) == ("answer", "p1")
    world.advance(LEASE)
    second = take(world)
    assert (second.signal, second.pause) == (first.signal, first.pause)
    commit(world, second, 1, "before")
    world.advance(LEASE)
    third = take(world)
    assert third.signal == first.signal
    commit(world, third, 1, "answer", consumes=True)
    world.advance(LEASE)
    last = take(world)
    assert (last.signal, last.pause) == (None, None)


def test_an_answer_can_be_taken_up_by_the_next_pause(world: World) -> None:
    submit(world)
    settle(world, take(world), 1, JobStatus.PAUSED, QUESTION)
    answer(world)
    second = QUESTION.model_copy(update={"id": "p2"})
    settle(world, take(world), 1, JobStatus.PAUSED, second, consumes=True)
    view = world.store.read(JOB)
    assert view.pause is not None
    assert view.pause.id == "p2"
    answer(world, pause_id="p2", signal_id="s2")
    held = take(world)
    assert held.pause is not None
    assert held.pause.id == "p2"


def test_fields_that_nobody_knows_survive(world: World) -> None:
    submit(world)
    held = take(world)
    odd = {"role": "assistant", "content": None, "reasoning_content": "嗯", "x": {"y": [1, None]}}
    progress = Progress('{"s":1,"later":[1]}', "reply", {"n": [1.5, None]}, [odd])
    assert world.store.commit(Ticket(JOB, held.epoch, 1), progress) == "committed"
    assert world.store.messages(JOB) == [odd]
    assert world.store.events(JOB)[-1].data == {"n": [1.5, None]}
