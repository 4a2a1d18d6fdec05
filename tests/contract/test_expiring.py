"""A job that is to begin by a certain time, or not at all."""

from __future__ import annotations

from api_client.contract import JobStatus
from tests.contract.acts import JOB, LEASE, QUESTION, answer, claim, settle, submit, sweep, take
from tests.contract.worlds import MINUTE, World
from worker.store.base import Claimed, NotClaimed, ToPublish
from worker.store.outcomes import expired_outcome

HOUR = 60 * MINUTE


def test_one_that_nobody_has_begun_is_cancelled_by_the_next_claim(world: World) -> None:
    submit(world, start_within_ms=HOUR)
    world.advance(HOUR + MINUTE)
    claimed = claim(world, nonce="mine")
    assert isinstance(claimed, ToPublish)
    assert (claimed.status, claimed.outcome) == (JobStatus.CANCELLED, expired_outcome())
    view = world.store.read(JOB)
    assert (view.status, view.outcome) == (JobStatus.CANCELLED, expired_outcome())
    assert world.store.events(JOB)[-1].kind == "cancelled"
    assert isinstance(claim(world, nonce="mine"), ToPublish), "its reply was lost"


def test_one_that_was_begun_in_time_goes_on_for_as_long_as_it_takes(world: World) -> None:
    submit(world, start_within_ms=MINUTE)
    take(world)
    world.advance(LEASE + 2 * HOUR)
    assert isinstance(claim(world, owner="w2/boot/1/"), Claimed)


def test_a_pause_may_last_beyond_it(world: World) -> None:
    submit(world, start_within_ms=HOUR)
    settle(world, take(world), 1, JobStatus.PAUSED, QUESTION)
    world.advance(2 * HOUR)
    answer(world)
    assert isinstance(claim(world), Claimed)


def test_a_sweep_hints_it_when_its_time_is_over(world: World) -> None:
    submit(world, start_within_ms=HOUR)
    world.advance(HOUR - MINUTE)
    assert sweep(world)
    due = world.due_in(JOB)
    assert due is not None
    assert 0 < due <= MINUTE
    world.advance(MINUTE)
    assert [h.spec.job_id for h in sweep(world)] == [JOB]


def test_one_that_is_delayed_beyond_it_never_begins(world: World) -> None:
    submit(world, delay_ms=2 * HOUR, start_within_ms=HOUR)
    assert isinstance(claim(world), NotClaimed)
    world.advance(HOUR + MINUTE)
    assert sweep(world)
    assert isinstance(claim(world), ToPublish)


def test_a_time_that_is_over_already_is_kept_as_well(world: World) -> None:
    submit(world, start_within_ms=0)
    assert isinstance(claim(world), ToPublish)


def test_words_of_the_input_are_no_order(world: World) -> None:
    submit(world, input={"start_within_ms": 0}, metadata={"start_within_ms": 0})
    assert isinstance(claim(world), Claimed)


def test_a_cancel_before_it_says_who_it_was(world: World) -> None:
    submit(world, start_within_ms=HOUR)
    world.store.cancel(JOB, by="anna")
    world.advance(2 * HOUR)
    claimed = claim(world)
    assert isinstance(claimed, ToPublish)
    assert claimed.outcome.text == "cancelled by anna"
