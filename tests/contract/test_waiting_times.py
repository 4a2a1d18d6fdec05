"""What a claim says of the time before it: where the job stood, and for how long."""

from __future__ import annotations

from api_client.contract import Answer, JobStatus
from tests.contract.acts import LEASE, answer, bring_to, settle, submit, take
from tests.contract.worlds import MINUTE, SECOND, World


def waited(ms: int | None, about: int) -> bool:
    """Whether it is so many milliseconds; real stores add the time that the test takes."""
    return ms is not None and about <= ms < about + 10 * SECOND


def test_a_new_job_has_waited_since_it_was_submitted(world: World) -> None:
    submit(world)
    world.advance(2 * MINUTE)
    claimed = take(world)
    assert claimed.was is JobStatus.QUEUED
    assert waited(claimed.waited_ms, 2 * MINUTE)


def test_an_answered_job_has_waited_since_it_was_answered(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    world.advance(50 * MINUTE)
    answer(world, Answer(value="yes"))
    world.advance(MINUTE)
    claimed = take(world)
    assert claimed.was is JobStatus.QUEUED
    assert waited(claimed.waited_ms, MINUTE)


def test_a_job_that_was_to_wait_has_waited_since_it_was_due(world: World) -> None:
    submit(world)
    settle(world, take(world), 1, JobStatus.WAITING, delay_ms=5 * MINUTE)
    world.advance(6 * MINUTE)
    claimed = take(world)
    assert claimed.was is JobStatus.WAITING
    assert waited(claimed.waited_ms, MINUTE)


def test_a_job_whose_worker_is_gone_was_running(world: World) -> None:
    submit(world)
    take(world)
    world.advance(LEASE + MINUTE)
    claimed = take(world, owner="w2/boot/1/")
    assert claimed.was is JobStatus.RUNNING
    assert claimed.waited_ms == 0


def test_the_same_claim_again_does_not_count_again(world: World) -> None:
    submit(world)
    take(world, nonce="mine")
    again = take(world, nonce="mine")
    assert again.was is None
    assert not again.waited_ms
