"""Finding due work, publishing and forgetting, on every store. Rule 1 and retention."""

from __future__ import annotations

import threading

import pytest

from api_client.contract import JobSpec, JobStatus, Outcome
from api_client.errors import JobNotFound
from api_client.keys import Keys
from tests.contract.acts import (
    CAP,
    DONE,
    GRACE,
    JOB,
    LEASE,
    answer,
    bring_to,
    claim,
    commit,
    hinted,
    settle,
    submit,
    sweep,
    take,
)
from tests.contract.worlds import MINUTE, SECOND, RedisWorld, World
from worker.store.base import Hint, NotClaimed, ToPublish

ENDED = [status for status in JobStatus if status.ended]


def test_a_job_that_was_accepted_and_never_delivered_is_hinted(world: World) -> None:
    spec = submit(world)
    assert sweep(world) == []
    world.advance(10 * SECOND)
    assert sweep(world) == [Hint(spec, JobStatus.QUEUED, again=True)]


def test_a_record_that_cannot_be_read_holds_up_no_other(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = RedisWorld(redis_url)
    submit(world, "spoilt")
    submit(world)
    world.client.hset(Keys(0).job("spoilt"), "spec", "{}")
    world.advance(10 * SECOND)
    assert hinted(world) == [JOB]
    assert "job spoilt" in caplog.text
    world.close()


def test_the_time_between_hints_doubles_up_to_a_cap(world: World) -> None:
    submit(world)
    world.advance(10 * SECOND)
    for wait in (GRACE, 2 * GRACE, CAP, CAP):
        assert hinted(world) == [JOB]
        world.advance(wait - MINUTE)
        assert hinted(world) == []
        world.advance(MINUTE)


def test_after_very_many_hints_there_is_still_a_next_one(world: World) -> None:
    submit(world)
    for _ in range(70):
        world.advance(CAP)
        assert hinted(world) == [JOB]
    due = world.due_in(JOB)
    assert due is not None
    assert CAP - MINUTE < due <= CAP


def test_a_claim_starts_the_count_of_hints_anew(world: World) -> None:
    submit(world)
    for _ in range(4):
        world.advance(CAP)
        assert hinted(world) == [JOB]
    take(world)
    world.advance(LEASE)
    assert hinted(world) == [JOB]
    world.advance(GRACE)
    assert hinted(world) == [JOB]


def test_a_held_job_is_left_alone_until_its_lease_ends(world: World) -> None:
    spec = submit(world)
    held = take(world)
    for _ in range(5):
        world.advance(LEASE - 10 * SECOND)
        assert sweep(world) == []
        assert world.store.renew([(JOB, held.epoch)], LEASE) == ["renewed"]
    world.advance(LEASE)
    assert sweep(world) == [Hint(spec, JobStatus.RUNNING)]


def test_paused_jobs_are_never_hinted(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    world.advance(100 * CAP)
    assert sweep(world) == []
    answer(world)
    assert sweep(world) == []
    world.advance(10 * SECOND)
    assert hinted(world) == [JOB]


def test_a_hint_that_is_sent_again_soon_is_told_from_others(world: World) -> None:
    submit(world)
    told = []
    for _ in range(4):
        world.advance(CAP)
        told += [hint.again for hint in sweep(world)]
    assert told == [True, True, False, False], "after 2, 4 and 7 minutes, and after 7 once more"


def test_one_early_repetition_is_sent_whatever_waits(world: World) -> None:
    """A hint that was lost in a queue that is never empty must not wait for the longest time."""
    submit(world)
    told = []
    for _ in range(6):
        world.advance(MINUTE)
        hints = world.store.sweep(limit=9, grace_ms=SECOND, cap_ms=60 * MINUTE)
        told += [hint.again for hint in hints]
    assert told == [True, True, False, True, True, True]


def test_a_hint_behind_one_that_was_missed_is_no_repetition(world: World) -> None:
    submit(world)
    world.store.missed(JOB)
    told = []
    for _ in range(2):
        world.advance(CAP)
        told += [hint.again for hint in sweep(world)]
    assert told == [False, True], "only the one behind it"
    due = world.due_in(JOB)
    assert due is not None
    assert due > GRACE, "the time between them grows all the same"


def test_nothing_is_noted_of_a_job_that_is_gone(world: World) -> None:
    world.store.missed(JOB)
    assert world.left_behind() == []


@pytest.mark.parametrize("status", [JobStatus.RUNNING, JobStatus.WAITING, *ENDED])
def test_what_comes_to_be_hinted_by_a_sweep_is_no_repetition(
    world: World, status: JobStatus
) -> None:
    bring_to(world, status)
    world.advance(CAP)
    assert [(hint.status, hint.again) for hint in sweep(world)] == [(status, False)]


def test_a_waiting_job_is_hinted_when_its_time_has_come(world: World) -> None:
    submit(world)
    settle(world, take(world), 1, JobStatus.WAITING, delay_ms=3 * MINUTE)
    world.advance(2 * MINUTE)
    assert sweep(world) == []
    world.advance(MINUTE)
    assert [hint.status for hint in sweep(world)] == [JobStatus.WAITING]
    take(world)


@pytest.mark.parametrize("status", ENDED)
def test_an_ended_job_is_hinted_until_it_is_published(world: World, status: JobStatus) -> None:
    bring_to(world, status)
    world.advance(2 * MINUTE)
    for _ in range(3):
        assert [hint.status for hint in sweep(world)] == [status]
        world.advance(CAP)
    assert isinstance(claim(world), ToPublish)
    world.store.published(JOB)
    world.advance(2 * CAP)
    assert sweep(world) == []
    view = world.store.read(JOB)
    assert (view.status, view.published, view.worker) == (status, True, None)


def test_who_publishes_has_time_to(world: World) -> None:
    submit(world)
    settle(world, take(world), 1, JobStatus.SUCCEEDED, Outcome(ok=True), delay_ms=5 * SECOND)
    assert isinstance(claim(world), NotClaimed)
    assert sweep(world) == []
    world.advance(5 * SECOND)
    assert [hint.status for hint in sweep(world)] == [JobStatus.SUCCEEDED]
    assert isinstance(claim(world), ToPublish)


def test_publishing_left_to_a_hint_waits_for_nobody_and_is_swept_later(world: World) -> None:
    submit(world)
    held = take(world)
    end = Outcome(ok=True)
    settle(world, held, 1, JobStatus.SUCCEEDED, end, delay_ms=5 * SECOND, left_to_hint=True)
    assert sweep(world) == []  # its owner has hinted it
    assert isinstance(claim(world, owner="other/"), ToPublish)
    assert isinstance(claim(world, owner="third/"), NotClaimed)


def test_a_renewal_that_comes_too_late_keeps_nobody_from_publishing(world: World) -> None:
    submit(world)
    held = take(world)
    end = Outcome(ok=True)
    settle(world, held, 1, JobStatus.SUCCEEDED, end, delay_ms=5 * SECOND, left_to_hint=True)
    assert world.store.renew([(JOB, held.epoch)], LEASE) == ["renewed"]
    assert isinstance(claim(world, owner="other/"), ToPublish)


@pytest.mark.parametrize("status", [s for s in JobStatus if not s.ended])
def test_what_has_not_ended_cannot_be_published(world: World, status: JobStatus) -> None:
    bring_to(world, status)
    before = world.raw(JOB)
    world.store.published(JOB)
    world.store.published("unknown")
    assert world.raw(JOB) == before


def test_publishing_is_exclusive(world: World) -> None:
    bring_to(world, JobStatus.SUCCEEDED)
    world.advance(2 * MINUTE)
    barrier = threading.Barrier(20)
    found = []

    def try_it(number: int) -> None:
        barrier.wait(20)
        found.append(claim(world, owner=f"w{number}/"))

    threads = [threading.Thread(target=try_it, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sum(isinstance(f, ToPublish) for f in found) == 1
    assert sum(isinstance(f, NotClaimed) and f.why == "busy" for f in found) == 19


def test_a_sweep_looks_at_a_limited_number_and_the_oldest_first(world: World) -> None:
    for number in range(9):
        submit(world, f"job-{number}")
        world.advance(SECOND)
    world.advance(MINUTE)
    first = hinted(world, limit=2)
    if world.partitions == 1:
        assert first == ["job-0", "job-1"]
    assert 2 <= len(first) <= 2 * world.partitions
    seen = list(first)
    while found := hinted(world, limit=2):
        seen += found
    assert sorted(seen) == [f"job-{number}" for number in range(9)]


def test_two_sweeps_at_once_hint_each_job_once(world: World) -> None:
    for number in range(40):
        submit(world, f"job-{number}")
    world.advance(MINUTE)
    barrier = threading.Barrier(4)
    found: list[str] = []

    def run() -> None:
        barrier.wait(20)
        while ids := hinted(world, limit=3):
            found.extend(ids)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == sorted(f"job-{number}" for number in range(40))


# --- retention -----------------------------------------------------------------------------


def test_everything_of_a_job_expires_together(world: World) -> None:
    submit(world, "other", delay_ms=500 * MINUTE)
    baseline = world.left_behind()
    submit(world, retention_s=3600)
    held = take(world)
    commit(world, held, 1, "a")
    settle(world, held, 2, JobStatus.SUCCEEDED, DONE, "b")
    world.store.published(JOB)
    world.advance(59 * MINUTE)
    assert sweep(world) == []
    assert world.store.read(JOB).outcome == DONE
    assert len(world.store.messages(JOB)) == 2
    assert len(world.store.events(JOB)) == 4
    world.advance(MINUTE)
    with pytest.raises(JobNotFound, match="retention has passed"):
        world.store.read(JOB)
    assert world.store.messages(JOB) == []
    assert world.store.events(JOB) == []
    assert world.store.list_jobs(JobStatus.SUCCEEDED) == []
    assert claim(world) == NotClaimed("missing")
    assert sweep(world) == []
    assert world.store.count(JobStatus.SUCCEEDED) == 0
    assert world.left_behind() == baseline


@pytest.mark.parametrize("status", [s for s in JobStatus if not s.ended])
def test_what_has_not_ended_never_expires(world: World, status: JobStatus) -> None:
    """E6: a pause that lasts longer than the retention, and all the others."""
    bring_to(world, status)
    world.advance(400 * 24 * 60 * MINUTE)
    sweep(world)
    assert world.store.read(JOB).status is status
    assert world.store.count(status) == 1


@pytest.mark.parametrize("status", ENDED)
def test_what_is_not_published_never_expires(world: World, status: JobStatus) -> None:
    bring_to(world, status)
    world.advance(400 * 24 * 60 * MINUTE)
    assert hinted(world) == [JOB]
    assert [view.job_id for view in world.store.list_jobs(status)] == [JOB]
    assert isinstance(claim(world), ToPublish)


def test_publishing_again_does_not_lengthen_the_retention(world: World) -> None:
    submit(world, retention_s=600)
    settle(world, take(world), 1, JobStatus.SUCCEEDED, DONE)
    world.store.published(JOB)
    world.advance(9 * MINUTE)
    world.store.published(JOB)
    world.advance(MINUTE)
    with pytest.raises(JobNotFound):
        world.store.read(JOB)


@pytest.mark.parametrize("swept", [False, True])
def test_an_id_can_be_used_again_when_its_job_has_expired(world: World, swept: bool) -> None:
    submit(world, retention_s=60)
    settle(world, take(world), 1, JobStatus.SUCCEEDED, DONE, "old")
    world.store.published(JOB)
    world.advance(MINUTE)
    if swept:
        sweep(world)
    again = world.store.create(JobSpec(job_id=JOB, agent="shop", input="new", retention_s=900))
    assert again.new
    assert world.store.count(JobStatus.SUCCEEDED) == 0
    assert world.store.messages(JOB) == []
    held = take(world)
    assert (held.epoch, held.seq, held.spec.input) == (1, 0, "new")
    settle(world, held, 1, JobStatus.SUCCEEDED, DONE)
    sweep(world)
    assert [view.job_id for view in world.store.list_jobs(JobStatus.SUCCEEDED)] == [JOB]


def test_ended_jobs_of_every_kind_leave_nothing(world: World) -> None:
    """E6: the indexes forget what has expired."""
    for number in range(60):
        submit(world, f"job-{number}", retention_s=60)
        held = take(world, f"job-{number}", max_tries=1)
        if number % 3 == 0:
            settle(world, held, 1, JobStatus.SUCCEEDED, DONE, "x")
        elif number % 3 == 1:
            world.store.cancel(f"job-{number}")
            settle(world, held, 1, JobStatus.QUEUED)
    world.advance(LEASE)
    for number in range(60):
        claim(world, f"job-{number}", max_tries=1)
        world.store.published(f"job-{number}")
    assert [world.store.count(status) for status in ENDED] == [20, 20, 20]
    world.advance(MINUTE)
    assert sweep(world) == []
    assert world.left_behind() == []


# --- following a trace ---------------------------------------------------------------------


def test_a_reader_waits_for_the_next_record(world: World) -> None:
    submit(world)
    last = world.store.events(JOB)[-1].id
    waiting = threading.Event()
    found: list[str] = []

    def follow() -> None:
        waiting.set()
        for _ in range(10):
            if events := world.store.events(JOB, after=last, block_s=2.0):
                found.extend(event.kind for event in events)
                return

    thread = threading.Thread(target=follow)
    thread.start()
    assert waiting.wait(10)
    take(world)
    thread.join(20)
    assert found == ["claimed"]


def test_a_reader_waits_no_longer_than_it_said(world: World) -> None:
    submit(world)
    last = world.store.events(JOB)[-1].id
    assert world.store.events(JOB, after=last, block_s=0.02) == []
    assert world.store.events("unknown", block_s=0.02) == []
