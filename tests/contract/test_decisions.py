"""Signals and cancels, on every store. Rules 12 and 13."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from api_client.contract import (
    Answer,
    AnsweredPause,
    Approve,
    Extend,
    Finish,
    JobStatus,
    Outcome,
    Reject,
    Signal,
)
from api_client.errors import (
    AlreadyAnswered,
    Conflict,
    JobNotFound,
    NotPaused,
    SignalRefused,
    WrongPause,
)
from api_client.store import Cancelled
from tests.contract.acts import (
    DONE,
    JOB,
    LEASE,
    QUESTION,
    answer,
    bring_to,
    claim,
    commit,
    kinds,
    publish,
    settle,
    submit,
    take,
)
from tests.contract.worlds import MINUTE, SECOND, World
from worker.store.base import Claimed, NotClaimed, ToPublish

UNPAUSED = [status for status in JobStatus if status is not JobStatus.PAUSED]


@pytest.mark.parametrize(
    "signal",
    [
        Answer(value={"ja": ["好", 1]}, by="anna", note="über"),
        Finish(answer="42"),
        Answer(value="\x00"),
    ],
    ids=["answer", "finish", "odd text"],
)
def test_a_signal_queues_the_job_and_is_handed_to_the_next_claim(
    world: World, signal: Signal
) -> None:
    bring_to(world, JobStatus.PAUSED)
    answer(world, signal)
    view = world.store.read(JOB)
    assert (view.status, view.pause) == (JobStatus.QUEUED, None)
    assert view.answered is not None
    assert view.answered.at >= view.created
    expected = AnsweredPause(pause_id="p1", by=signal.by, kind=signal.kind)
    assert view.answered.model_copy(update={"at": 0}) == expected
    due = world.due_in(JOB)
    assert due is not None
    assert 0 < due <= 5 * SECOND
    held = take(world)
    assert held.signal == signal
    assert held.pause == QUESTION
    assert world.store.events(JOB)[-2].data == signal.model_dump(mode="json")


def test_rule_12_the_first_signal_wins(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    answer(world, Answer(value="yes", by="anna"))
    before = world.raw(JOB)
    with pytest.raises(AlreadyAnswered, match=r"answered by anna \(answer\) at 20"):
        answer(world, Finish(answer="no", by="ben"), signal_id="s2")
    assert world.raw(JOB) == before
    held = take(world)
    assert held.signal == Answer(value="yes", by="anna")


def test_rule_12_the_first_of_fifty_wins(world: World) -> None:
    """E3: fifty at the same time."""
    bring_to(world, JobStatus.PAUSED)
    barrier = threading.Barrier(50)
    won: list[int] = []
    late: list[int] = []

    def send(number: int) -> None:
        barrier.wait(20)
        try:
            answer(world, Answer(value=number, by=f"p{number}"), signal_id=f"s{number}")
            won.append(number)
        except AlreadyAnswered:
            late.append(number)

    threads = [threading.Thread(target=send, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (len(won), len(late)) == (1, 49)
    assert take(world).signal == Answer(value=won[0], by=f"p{won[0]}")
    assert kinds(world).count("signal") == 1


def test_the_same_signal_sent_again_changes_nothing(world: World) -> None:
    """Its reply was lost; the id says that it is the same."""
    bring_to(world, JobStatus.PAUSED)
    answer(world)
    before = world.raw(JOB)
    answer(world)
    assert world.raw(JOB) == before
    held = take(world)
    answer(world)
    commit(world, held, 1, consumes=True)
    answer(world)
    settle(world, held, 2, JobStatus.SUCCEEDED, DONE)
    answer(world)
    assert kinds(world).count("signal") == 1
    assert world.store.read(JOB).status is JobStatus.SUCCEEDED


def test_a_late_signal_is_told_who_was_first_even_when_all_is_over(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    answer(world, Answer(value="yes", by="anna"))
    settle(world, take(world), 1, JobStatus.SUCCEEDED, DONE, consumes=True)
    before = world.raw(JOB)
    with pytest.raises(AlreadyAnswered, match="by anna"):
        answer(world, signal_id="s2")
    assert world.raw(JOB) == before


def test_a_signal_for_an_earlier_pause_does_not_answer_the_next(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    answer(world)
    second = QUESTION.model_copy(update={"id": "p2"})
    settle(world, take(world), 1, JobStatus.PAUSED, second, consumes=True)
    before = world.raw(JOB)
    with pytest.raises(AlreadyAnswered):
        answer(world, pause_id="p1", signal_id="s2")
    with pytest.raises(WrongPause, match=r"'p3' is not the open one; answer 'p2'"):
        answer(world, pause_id="p3", signal_id="s3")
    assert world.raw(JOB) == before
    answer(world, pause_id="p2", signal_id="s4")


@pytest.mark.parametrize("pause_id", ["", "P1", "p1 ", "p11", "é", "p" * 10_000])
def test_a_signal_must_name_the_open_pause(world: World, pause_id: str) -> None:
    bring_to(world, JobStatus.PAUSED)
    before = world.raw(JOB)
    with pytest.raises(WrongPause, match="not the open one") as caught:
        answer(world, pause_id=pause_id)
    assert len(str(caught.value)) < 300
    assert world.raw(JOB) == before


@pytest.mark.parametrize(
    "signal", [Approve(), Reject(reason="no"), Extend(amount=1)], ids=lambda s: s.kind
)
def test_a_pause_takes_only_the_kinds_it_names(world: World, signal: Signal) -> None:
    bring_to(world, JobStatus.PAUSED)
    before = world.raw(JOB)
    with pytest.raises(SignalRefused, match="but: answer, finish"):
        answer(world, signal)
    assert world.raw(JOB) == before
    answer(world)


@pytest.mark.parametrize("status", UNPAUSED)
def test_a_signal_for_a_job_that_is_not_paused(world: World, status: JobStatus) -> None:
    """E4: refused with the status, nothing changed, nothing to hint."""
    bring_to(world, status)
    before = world.raw(JOB)
    with pytest.raises(NotPaused, match=f"is {status}, not paused"):
        answer(world)
    assert world.raw(JOB) == before


@pytest.mark.parametrize("job_id", ["unknown", "no such job", ""])
def test_a_signal_for_an_unknown_job(world: World, job_id: str) -> None:
    with pytest.raises(JobNotFound):
        answer(world, job_id=job_id)


def test_a_signal_for_an_expired_job(world: World) -> None:
    submit(world, retention_s=60)
    settle(world, take(world), 1, JobStatus.SUCCEEDED, DONE)
    publish(world)
    world.advance(MINUTE)
    with pytest.raises(JobNotFound, match="retention has passed"):
        answer(world)


def test_every_refusal_is_a_conflict_or_an_unknown_job() -> None:
    for error in (NotPaused, WrongPause, AlreadyAnswered, SignalRefused):
        assert issubclass(error, Conflict)


# --- cancel --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [JobStatus.QUEUED, JobStatus.WAITING, JobStatus.PAUSED])
def test_a_job_nobody_runs_is_cancelled_at_once(world: World, status: JobStatus) -> None:
    spec = bring_to(world, status)
    epoch = world.store.read(JOB).epoch
    cancelled = world.store.cancel(JOB, by="anna", note="doppelt")
    assert cancelled == Cancelled(JobStatus.CANCELLED, pending=False)
    view = world.store.read(JOB)
    outcome = Outcome(ok=False, reason="cancelled", text="cancelled by anna: doppelt")
    assert (view.status, view.outcome) == (JobStatus.CANCELLED, outcome)
    assert (view.pause, view.due, view.worker) == (None, None, None)
    assert view.epoch == epoch + 1
    due = world.due_in(JOB)
    assert due is not None
    assert due <= 0
    assert claim(world) == ToPublish(spec, JobStatus.CANCELLED, outcome)
    assert [e.data for e in world.store.events(JOB)[-2:]] == [{"by": "anna", "note": "doppelt"}, {}]


def test_a_running_job_is_cancelled_at_its_next_commit(world: World) -> None:
    submit(world)
    held = take(world)
    assert world.store.cancel(JOB) == Cancelled(JobStatus.RUNNING, pending=True)
    view = world.store.read(JOB)
    assert (view.status, view.cancel_requested) == (JobStatus.RUNNING, True)
    assert commit(world, held, 1, "a") == "cancel"
    assert world.store.renew([(JOB, held.epoch)], LEASE) == ["cancel"]
    assert settle(world, held, 2, JobStatus.QUEUED) is JobStatus.CANCELLED
    outcome = world.store.read(JOB).outcome
    assert outcome == Outcome(ok=False, reason="cancelled", text="cancelled")


def test_a_job_whose_worker_is_dead_is_cancelled_at_once(world: World) -> None:
    submit(world)
    dead = take(world)
    world.advance(LEASE)
    assert world.store.cancel(JOB) == Cancelled(JobStatus.CANCELLED, pending=False)
    assert commit(world, dead, 1) == "fenced"
    assert isinstance(claim(world), ToPublish)


def test_a_cancel_whose_runner_dies_takes_effect_at_the_next_claim(world: World) -> None:
    """Nothing more of it runs, not even up to a first commit."""
    spec = submit(world)
    held = take(world)
    commit(world, held, 1, "a")
    world.store.cancel(JOB, by="anna")
    world.advance(LEASE)
    found = claim(world, owner="w2/boot/1/")
    outcome = Outcome(ok=False, reason="cancelled", text="cancelled by anna")
    assert found == ToPublish(spec, JobStatus.CANCELLED, outcome)
    assert commit(world, held, 2) == "fenced"
    view = world.store.read(JOB)
    assert (view.status, view.outcome) == (JobStatus.CANCELLED, outcome)
    assert kinds(world)[-2:] == ["cancel", "cancelled"]
    assert claim(world, owner="w3/boot/1/") == NotClaimed("busy", "w2/boot/1/")


def test_the_first_cancel_is_the_one_that_is_told(world: World) -> None:
    submit(world)
    take(world)
    world.store.cancel(JOB, by="anna")
    assert world.store.cancel(JOB, by="ben") == Cancelled(JobStatus.RUNNING, pending=True)
    world.advance(LEASE)
    world.store.cancel(JOB, by="carl")
    outcome = world.store.read(JOB).outcome
    assert outcome is not None
    assert outcome.text == "cancelled by anna"
    assert kinds(world).count("cancel") == 1


@pytest.mark.parametrize("status", [s for s in JobStatus if s.ended])
@pytest.mark.parametrize("is_published", [False, True])
def test_an_ended_job_stays_as_it_is(world: World, status: JobStatus, is_published: bool) -> None:
    bring_to(world, status)
    if is_published:
        publish(world)
    before = world.raw(JOB)
    assert world.store.cancel(JOB, by="anna") == Cancelled(status, pending=False)
    assert world.raw(JOB) == before


@pytest.mark.parametrize("note", ["", "'\"\\{}", "日本語", "x" * 10_000])
def test_who_cancelled_and_why_is_kept_word_for_word(world: World, note: str) -> None:
    submit(world)
    held = take(world)
    world.store.cancel(JOB, by="", note=note)
    settle(world, held, 1, JobStatus.QUEUED)
    outcome = world.store.read(JOB).outcome
    assert outcome is not None
    assert outcome.text == ("cancelled" + (f": {note}" if note else ""))


def test_a_cancelled_pause_takes_no_answer(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    world.store.cancel(JOB)
    with pytest.raises(NotPaused, match="is cancelled"):
        answer(world)


def test_an_answer_that_came_before_the_cancel_is_dropped(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    answer(world)
    world.store.cancel(JOB)
    found: Any = claim(world)
    assert not isinstance(found, Claimed)
    assert world.store.read(JOB).status is JobStatus.CANCELLED
