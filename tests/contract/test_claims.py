"""Who may run a job: claims, fencing, leases, poison, on every store. Rules 1, 3 and 15."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api_client.contract import JobStatus
from tests.contract.acts import (
    DONE,
    JOB,
    LEASE,
    answer,
    bring_to,
    claim,
    commit,
    hinted,
    kinds,
    publish,
    settle,
    submit,
    take,
)
from tests.contract.worlds import MINUTE, SECOND, World, run_json
from worker.store.base import NotClaimed, Progress, Settlement, Ticket, ToPublish
from worker.store.outcomes import poison_outcome


def test_a_claim_brings_all_that_a_runner_needs(world: World) -> None:
    spec = submit(world)
    first = take(world)
    assert (first.spec, first.epoch, first.seq, first.tries) == (spec, 1, 0, 1)
    assert (first.messages, first.run, first.pause, first.signal) == ([], None, None, None)
    commit(world, first, 1, "a", "b")
    commit(world, first, 2, "c")
    world.advance(LEASE)
    second = take(world, owner="w2/boot/1/")
    assert (second.epoch, second.seq, second.tries) == (2, 2, 2)
    assert [m["content"] for m in second.messages] == ["a", "b", "c"]
    assert second.run == '{"s":2}'


def test_a_held_job_is_busy_until_the_lease_ends(world: World) -> None:
    submit(world)
    take(world, owner="w1/boot/1/")
    world.advance(LEASE - 10 * SECOND)
    before = world.raw(JOB)
    assert claim(world, owner="w2/boot/1/") == NotClaimed("busy", "w1/boot/1/")
    assert world.raw(JOB) == before
    world.advance(10 * SECOND)
    assert take(world, owner="w2/boot/1/").epoch == 2
    assert world.store.read(JOB).worker == "w2/boot/1/"


def test_a_claim_whose_reply_was_lost_finds_itself_the_owner(world: World) -> None:
    submit(world)
    first = take(world, nonce="mine")
    commit(world, first, 1, "a")
    again = take(world, nonce="mine")
    assert (again.epoch, again.seq, again.tries) == (1, 1, 1)
    assert [m["content"] for m in again.messages] == ["a"]
    assert kinds(world).count("claimed") == 1


def test_a_paused_job_is_not_claimed(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    before = world.raw(JOB)
    world.advance(LEASE)
    assert claim(world) == NotClaimed("paused")
    world.advance(-LEASE)
    assert world.raw(JOB) == before


@pytest.mark.parametrize("status", [JobStatus.SUCCEEDED, JobStatus.FAILED])
def test_an_ended_job_is_published_by_one_alone(world: World, status: JobStatus) -> None:
    """Its runner has it for the grace time, whoever claims it next for a lease."""
    spec = bring_to(world, status)
    assert claim(world) == NotClaimed("busy", "w1/boot/1/")
    world.advance(MINUTE)
    found = claim(world, owner="w2/boot/1/", nonce="w2")
    assert isinstance(found, ToPublish)
    assert (found.spec, found.status) == (spec, status)
    assert claim(world, owner="w3/boot/1/") == NotClaimed("busy", "w2/boot/1/")
    assert claim(world, nonce="w2") == found
    world.store.published(JOB)
    assert claim(world, nonce="w2") == NotClaimed("ended")
    world.advance(LEASE)
    assert claim(world) == NotClaimed("ended")


def test_a_claim_to_publish_leaves_the_outcome_as_it_is(world: World) -> None:
    bring_to(world, JobStatus.SUCCEEDED)
    for _ in range(9):  # more often than a running job may be started
        world.advance(LEASE)
        found = claim(world, max_tries=3)
        assert isinstance(found, ToPublish)
        assert found.outcome == DONE
    view = world.store.read(JOB)
    assert (view.status, view.outcome) == (JobStatus.SUCCEEDED, DONE)


def test_rule_3_an_old_epoch_changes_nothing(world: World) -> None:
    submit(world)
    old = take(world, owner="w1/boot/1/")
    commit(world, old, 1, "a")
    world.advance(LEASE)
    take(world, owner="w2/boot/1/")
    before = world.raw(JOB)
    assert commit(world, old, 1, "a") == "fenced"
    assert commit(world, old, 2, "b") == "fenced"
    for status in (JobStatus.SUCCEEDED, JobStatus.PAUSED, JobStatus.QUEUED, JobStatus.WAITING):
        assert settle(world, old, 2, status, DONE if status.ended else None) is None
    assert world.store.renew([(JOB, old.epoch)], LEASE) == ["lost"]
    assert world.raw(JOB) == before


def test_an_epoch_from_the_future_changes_nothing(world: World) -> None:
    submit(world)
    take(world)
    before = world.raw(JOB)
    ticket = Ticket(JOB, epoch=2, seq=1)
    assert world.store.commit(ticket, Progress("{}", "reply")) == "fenced"
    settlement = Settlement(JobStatus.SUCCEEDED, DONE)
    assert world.store.settle(ticket, Progress("{}", "finished"), settlement) is None
    assert world.store.renew([(JOB, 2)], LEASE) == ["lost"]
    assert world.raw(JOB) == before


def test_nothing_is_written_to_a_job_that_is_gone(world: World) -> None:
    submit(world, retention_s=60)
    held = take(world)
    settle(world, held, 1, JobStatus.SUCCEEDED, DONE)
    world.store.published(JOB)
    world.advance(MINUTE)
    assert commit(world, held, 1) == "fenced"
    assert settle(world, held, 1, JobStatus.SUCCEEDED, DONE) is None
    assert world.store.renew([(JOB, held.epoch)], LEASE) == ["lost"]
    world.store.published(JOB)
    assert world.store.abandon("w1/", job_id=JOB) == []
    assert world.store.events(JOB) == []
    assert hinted(world) == []
    assert world.left_behind() == []


def test_the_last_holder_may_commit_after_its_lease_if_nobody_took_over(world: World) -> None:
    submit(world)
    held = take(world)
    world.advance(5 * LEASE)
    assert commit(world, held, 1, "late") == "committed"
    assert world.store.renew([(JOB, held.epoch)], LEASE) == ["renewed"]
    assert claim(world) == NotClaimed("busy", "w1/boot/1/")


def test_renewing_keeps_a_job_from_others_and_from_the_sweep(world: World) -> None:
    submit(world, "job-1")
    submit(world, "job-2")
    submit(world, "job-3")
    one, two = take(world, "job-1"), take(world, "job-2")
    world.advance(LEASE - 10 * SECOND)
    world.store.cancel("job-2")
    leases = [("job-2", two.epoch), ("unknown", 1), ("job-1", one.epoch), ("job-1", 99)]
    assert world.store.renew(leases, LEASE) == ["cancel", "lost", "renewed", "lost"]
    world.advance(LEASE - 10 * SECOND)
    assert claim(world, "job-1") == NotClaimed("busy", "w1/boot/1/")
    due = world.due_in("job-1")
    assert due is not None
    assert 0 < due <= 10 * SECOND
    assert world.store.renew([], LEASE) == []


@pytest.mark.parametrize("status", [JobStatus.QUEUED, JobStatus.PAUSED, JobStatus.WAITING])
def test_a_job_that_was_given_back_is_not_renewed(world: World, status: JobStatus) -> None:
    bring_to(world, status)
    before = world.raw(JOB)
    assert world.store.renew([(JOB, 1)], LEASE) == ["lost"]
    assert world.raw(JOB) == before


def test_abandoning_frees_a_dead_process_jobs_at_once(world: World) -> None:
    owners = {"job-1": "n1/a/1/", "job-2": "n1/b/2/", "job-3": "n2/a/1/", "job-4": "n10/a/1/"}
    for job_id, owner in owners.items():
        submit(world, job_id)
        take(world, job_id, owner=owner)
    freed = world.store.abandon("n1/", keep="n1/b/")
    assert [spec.job_id for spec in freed] == ["job-1"]
    due = world.due_in("job-1")
    assert due is not None
    assert due <= 0
    assert take(world, "job-1", owner="n3/a/1/").epoch == 2
    for job_id in ("job-2", "job-3", "job-4"):
        assert claim(world, job_id) == NotClaimed("busy", owners[job_id])
    assert world.store.abandon("n1/", keep="n1/b/") == []


def test_a_broken_attempt_is_hinted_after_its_delay(world: World) -> None:
    submit(world, JOB)
    take(world, JOB)
    assert [s.job_id for s in world.store.abandon("w1/", job_id=JOB, delay_ms=30 * SECOND)] == [JOB]
    due = world.due_in(JOB)
    assert due is not None
    assert 29 * SECOND < due <= 30 * SECOND
    assert take(world, JOB, owner="w2/boot/1/").tries == 2


def test_abandoning_one_job(world: World) -> None:
    for job_id in ("job-1", "job-2"):
        submit(world, job_id)
        take(world, job_id)
    assert world.store.abandon("w2/", job_id="job-1") == []
    assert world.store.abandon("w1/", job_id="unknown") == []
    assert [s.job_id for s in world.store.abandon("w1/", job_id="job-1")] == ["job-1"]
    take(world, "job-1")
    assert isinstance(claim(world, "job-2"), NotClaimed)


def test_what_is_left_of_an_abandoned_process_cannot_renew(world: World) -> None:
    """Its thread that keeps leases may still run while the process is being left."""
    submit(world)
    held = take(world, nonce="mine")
    world.store.abandon("w1/")
    assert world.store.renew([(JOB, held.epoch)], LEASE) == ["lost"]
    again = take(world, nonce="mine")
    assert again.epoch == held.epoch + 1


@pytest.mark.parametrize("status", list(JobStatus))
def test_abandoning_touches_running_jobs_only(world: World, status: JobStatus) -> None:
    bring_to(world, status)
    before = world.raw(JOB)
    freed = world.store.abandon("", delay_ms=0)
    assert bool(freed) == (status is JobStatus.RUNNING)
    assert (world.raw(JOB) == before) == (status is not JobStatus.RUNNING)


def test_rule_15_a_job_whose_workers_die_is_failed_as_poison(world: World) -> None:
    spec = submit(world)
    for number in (1, 2, 3):
        assert take(world, max_tries=3).tries == number
        world.advance(LEASE)
    found = claim(world, max_tries=3)
    assert found == ToPublish(spec, JobStatus.FAILED, poison_outcome(3))
    view = world.store.read(JOB)
    assert (view.status, view.outcome) == (JobStatus.FAILED, poison_outcome(3))
    assert kinds(world)[-1] == "failed"
    assert world.store.list_jobs(JobStatus.RUNNING) == []
    publish(world)
    assert claim(world) == NotClaimed("ended")


def test_rule_15_progress_starts_the_count_anew(world: World) -> None:
    """The start that made the progress is the first one at the next step."""
    submit(world)
    assert take(world, max_tries=2).tries == 1
    world.advance(LEASE)
    for _ in range(5):
        held = take(world, max_tries=2)
        assert held.tries == 2
        assert commit(world, held, 1, "on") == "committed"
        assert world.store.read(JOB).tries == 1
        world.advance(LEASE)


def test_rule_15_the_deaths_at_one_step_are_counted_alike_before_and_after_a_commit(
    world: World,
) -> None:
    submit(world)
    commit(world, take(world, max_tries=3), 1, "on")
    for number in (2, 3):
        world.advance(LEASE)
        assert take(world, max_tries=3).tries == number
    world.advance(LEASE)
    assert isinstance(claim(world, max_tries=3), ToPublish)


@pytest.mark.parametrize("status", [JobStatus.QUEUED, JobStatus.WAITING])
def test_rule_15_giving_a_job_back_starts_the_count_anew(world: World, status: JobStatus) -> None:
    submit(world)
    for _ in range(5):
        held = take(world, max_tries=1)
        assert held.tries == 1
        settle(world, held, 1, status, delay_ms=MINUTE)
        world.advance(MINUTE)


def test_rule_15_a_persons_answer_starts_the_count_anew(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    answer(world)
    assert take(world, max_tries=1).tries == 1


def test_rule_15_a_suspect_is_left_for_somebody_who_runs_no_other(world: World) -> None:
    submit(world)
    for number in (1, 2):
        assert take(world, max_tries=3, wary_of=2).tries == number
        world.advance(LEASE)
    messages, events = world.store.messages(JOB), kinds(world)
    assert claim(world, max_tries=3, wary_of=2) == NotClaimed("suspect", "2")
    assert (world.store.messages(JOB), kinds(world)) == (messages, events)
    view = world.store.read(JOB)
    assert (view.status, view.epoch, view.tries) == (JobStatus.RUNNING, 2, 2)
    assert hinted(world) == [JOB]
    held = take(world, max_tries=3)
    assert held.tries == 3
    commit(world, held, 1, "on")
    world.advance(LEASE)
    assert take(world, max_tries=3, wary_of=2).tries == 2, "what died since is one"


@pytest.mark.parametrize("tries", [2, 3])
def test_rule_15_a_suspect_out_of_tries_or_cancelled_ends_anywhere(
    world: World, tries: int
) -> None:
    submit(world)
    for _ in range(tries):
        take(world, max_tries=3)
        world.advance(LEASE)
    if tries == 2:
        world.store.cancel(JOB)
    found = claim(world, max_tries=3, wary_of=2)
    assert tries == 2 or isinstance(found, ToPublish)
    assert world.store.read(JOB).status in (JobStatus.FAILED, JobStatus.CANCELLED)


def test_messages_that_the_worker_knows_are_not_read_again(world: World) -> None:
    submit(world)
    held = take(world)
    commit(world, held, 1, "one", "two")
    settle(world, held, 2, JobStatus.QUEUED, None, "three")
    again = take(world, known=held.mark(held.seq + 2, 3))
    assert (again.unchanged, again.messages, again.run) == (True, [], run_json(2))
    world.advance(LEASE)
    assert len(take(world, known=held.mark(held.seq + 2, 3)).messages) == 3, "another was there"


@pytest.mark.parametrize(
    "other",
    [{"nonce": "another"}, {"epoch": 2}, {"seq": 2}, {"messages": 2}],
    ids=lambda o: next(iter(o)),
)
def test_messages_of_another_moment_are_read(world: World, other: dict[str, Any]) -> None:
    submit(world)
    held = take(world)
    settle(world, held, 1, JobStatus.QUEUED, None, "one")
    mark = held.mark(held.seq + 1, 1)
    assert (mark.epoch, mark.seq, mark.messages) == (1, 1, 1)
    found = take(world, known=replace(mark, **other))
    assert (found.unchanged, len(found.messages)) == (False, 1)


def test_a_claim_that_is_made_again_brings_the_messages(world: World) -> None:
    """Its answer was lost; nobody knows any more whether they were in it."""
    submit(world)
    held = take(world)
    settle(world, held, 1, JobStatus.QUEUED, None, "one")
    mark = held.mark(held.seq + 1, 1)
    assert take(world, nonce="n", known=mark).unchanged
    again = take(world, nonce="n", known=mark)
    assert (again.unchanged, len(again.messages)) == (False, 1)


def test_a_job_whose_agent_a_worker_does_not_have_is_left_as_it_is(world: World) -> None:
    submit(world)
    held = take(world, agents=["desk", "shop"])
    world.advance(LEASE)
    before = world.raw(JOB)
    for _ in range(7):
        assert claim(world, max_tries=3, agents=["desk", "sho", "shopping"]) == NotClaimed(
            "unknown", "shop"
        )
    assert world.raw(JOB) == before
    assert hinted(world) == [JOB]
    again = take(world, max_tries=3, agents=["shop"])
    assert (again.epoch, again.tries) == (held.epoch + 1, 2)


@pytest.mark.parametrize("status", [JobStatus.SUCCEEDED, JobStatus.CANCELLED])
def test_a_job_of_any_agent_is_published_by_whoever_comes(world: World, status: JobStatus) -> None:
    bring_to(world, status)
    world.advance(MINUTE)
    assert isinstance(claim(world, agents=["desk"]), ToPublish)


def test_a_job_of_any_agent_expires_with_whoever_comes(world: World) -> None:
    submit(world, start_within_ms=MINUTE)
    world.advance(MINUTE)
    assert isinstance(claim(world, agents=["desk"]), ToPublish)
    assert world.store.read(JOB).status is JobStatus.CANCELLED


def test_a_tenants_job_whose_agent_is_unknown_keeps_no_other_from_its_turn(world: World) -> None:
    submit(world, tenant="acme")
    assert world.turn(JOB) == "hinted"
    assert claim(world, agents=["desk"]) == NotClaimed("unknown", "shop")
    assert world.turn(JOB) == ""
    world.advance(MINUTE)
    assert hinted(world) == [JOB]
    assert take(world, agents=["shop"]).tries == 1


def test_the_same_epoch_of_another_claim_is_fenced(world: World) -> None:
    """A server that has lost its last second gives an epoch once more, to somebody else."""
    submit(world)
    held = take(world, nonce="n")
    lost = Ticket(JOB, held.epoch, held.seq + 1, "lost")
    progress = Progress(run_json(1), "reply", {}, [])
    assert world.store.commit(lost, progress) == "fenced"
    assert world.store.settle(lost, progress, Settlement(JobStatus.QUEUED)) is None
    mine = Ticket(JOB, held.epoch, held.seq + 1, "n")
    assert world.store.commit(mine, progress) == "committed"
    assert world.store.commit(mine, progress) == "committed", "the same commit once more"
    last = replace(mine, seq=mine.seq + 1)
    for _ in range(2):
        queued = world.store.settle(last, progress, Settlement(JobStatus.QUEUED))
        assert queued is JobStatus.QUEUED
