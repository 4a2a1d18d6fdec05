"""Who may answer, deadlines, messages and wishes of people, on every store. Rule 12."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import (
    Answer,
    Appointment,
    Cancel,
    JobStatus,
    Mail,
    Pause,
    PauseKind,
    Wish,
)
from api_client.errors import Conflict, JobNotFound, NotAllowed
from api_client.redis_desk import MESSAGES_KNOWN
from tests.contract.acts import (
    DONE,
    JOB,
    QUESTION,
    answer,
    bring_to,
    claim,
    commit,
    hinted,
    kinds,
    settle,
    submit,
    sweep,
    take,
)
from tests.contract.worlds import MINUTE, SECOND, World
from worker.store.base import Progress, Ticket, ToPublish

SALES = QUESTION.model_copy(update={"labels": ("sales", "käufer")})
TIMED = QUESTION.model_copy(
    update={
        "accepts": ("answer", "finish", "fail", "cancel"),
        "labels": ("sales",),
        "timetable": (
            Appointment(after_s=60, do="remind"),
            Appointment(after_s=3600, do="escalate", labels=("leads",)),
            Appointment(after_s=1800, do="decide", signal={"kind": "finish", "answer": "late"}),
        ),
    }
)


def pause(world: World, record: Pause, job_id: str = JOB, **fields: Any) -> None:
    """Accept a job and let it pause."""
    submit(world, job_id, **fields)
    settle(world, take(world, job_id), 1, JobStatus.PAUSED, record)


# --- who may answer ----------------------------------------------------------------------------


@pytest.mark.parametrize("held", [("sales",), ("x", "käufer"), None], ids=str)
def test_one_of_the_labels_is_enough(world: World, held: tuple[str, ...] | None) -> None:
    pause(world, SALES)
    world.store.signal(JOB, "p1", Answer(value="yes"), "s1", held)
    assert world.store.read(JOB).status is JobStatus.QUEUED


@pytest.mark.parametrize("held", [(), ("sale",), ("SALES",), ("",)], ids=str)
def test_without_one_of_them_a_signal_is_refused(world: World, held: tuple[str, ...]) -> None:
    pause(world, SALES)
    before = world.raw(JOB)
    with pytest.raises(NotAllowed, match="sales, käufer"):
        world.store.signal(JOB, "p1", Answer(value="yes"), "s1", held)
    assert world.raw(JOB) == before


def test_anybody_may_answer_a_pause_without_labels(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    world.store.signal(JOB, "p1", Answer(value="yes"), "s1", ())
    assert world.store.read(JOB).status is JobStatus.QUEUED


# --- the timetable -----------------------------------------------------------------------------


def test_a_pause_with_a_timetable_is_due_at_its_first_appointment(world: World) -> None:
    pause(world, TIMED)
    view = world.store.read(JOB)
    assert view.pause is not None
    assert view.pause.deadline == view.pause.created + 3600 * SECOND
    due = world.due_in(JOB)
    assert due is not None
    assert 55 * SECOND < due <= MINUTE
    assert sweep(world) == []
    world.advance(MINUTE)
    (hint,) = sweep(world)
    assert (hint.spec.job_id, hint.status) == (JOB, JobStatus.PAUSED)
    assert sweep(world) == [], "it is not found again before its grace time has passed"


def test_a_reminder_changes_nobody_and_the_deadline_stays(world: World) -> None:
    pause(world, TIMED)
    deadline = world.store.read(JOB).pause
    assert deadline is not None
    world.advance(MINUTE)
    sweep(world)
    assert world.store.pace(JOB, "p1", 0)
    assert not world.store.pace(JOB, "p1", 0), "only once"
    now = world.store.read(JOB).pause
    assert now is not None
    assert (now.kept, now.labels) == (1, ("sales",))
    due = world.due_in(JOB)
    assert due is not None
    assert abs(due - (3600 * SECOND - MINUTE)) < 15 * SECOND
    assert kinds(world)[-1] == "reminder"


def test_an_escalation_asks_others_and_gives_them_their_own_time(world: World) -> None:
    pause(world, TIMED)
    world.store.pace(JOB, "p1", 0)
    world.advance(5 * 3600 * SECOND)  # no worker was there to do it in time
    assert world.store.pace(JOB, "p1", 1, ("leads",))
    now = world.store.read(JOB).pause
    assert now is not None
    assert (now.kept, now.labels) == (2, ("leads",))
    assert now.deadline is not None
    due = world.due_in(JOB)
    assert due is not None
    assert abs(due - 1800 * SECOND) < 15 * SECOND
    event = world.store.events(JOB)[-1]
    assert event.kind == "escalated"
    assert event.data == {"pause": "p1", "kind": "hand_to_human", "labels": ["leads"]}
    with pytest.raises(NotAllowed, match="labels: leads"):
        world.store.signal(JOB, "p1", Answer(value="yes"), "s1", ("sales",))
    world.store.signal(JOB, "p1", Answer(value="yes"), "s1", ("leads",))


@pytest.mark.parametrize(("pause_id", "kept"), [("p2", 0), ("p1", 1), ("p1", 3), ("", 0)], ids=str)
def test_an_appointment_that_is_not_the_next_one_changes_nothing(
    world: World, pause_id: str, kept: int
) -> None:
    pause(world, TIMED)
    before = world.raw(JOB)
    assert not world.store.pace(JOB, pause_id, kept, ("leads",))
    assert world.raw(JOB) == before


def test_an_answered_pause_keeps_no_appointments(world: World) -> None:
    pause(world, TIMED)
    answer(world)
    world.advance(MINUTE)
    assert hinted(world) == [JOB]
    assert not world.store.pace(JOB, "p1", 0)
    held = take(world)
    again = QUESTION.model_copy(update={"id": "p2"})
    settle(world, held, 1, JobStatus.PAUSED, again, consumes=True)
    view = world.store.read(JOB).pause
    assert view is not None
    assert (view.kept, view.labels, view.deadline) == (0, (), None)
    assert world.due_in(JOB) is None


# --- cancel as a decision ------------------------------------------------------------------------


def test_the_signal_cancel_ends_the_job_at_the_next_claim(world: World) -> None:
    pause(world, TIMED)
    answer(world, Cancel(by="anna", note="sent twice"))
    view = world.store.read(JOB)
    assert (view.status, view.cancel_requested) == (JobStatus.QUEUED, True)
    found = claim(world)
    assert isinstance(found, ToPublish)
    assert found.status is JobStatus.CANCELLED
    assert found.outcome.text == "cancelled by anna: sent twice"


# --- messages ------------------------------------------------------------------------------------


def test_messages_wait_in_their_order_until_a_commit_shows_them(world: World) -> None:
    submit(world)
    world.store.message(JOB, Mail(text="first", by="anna"), "m1")
    held = take(world)
    assert [mail.text for mail in held.mail] == ["first"]
    assert commit(world, held, 1) == "mail"
    world.store.message(JOB, Mail(text="zweitens 二", by="ben", note="why"), "m2")
    assert world.store.mail(JOB) == [
        Mail(text="first", by="anna", number=1),
        Mail(text="zweitens 二", by="ben", note="why", number=2),
    ]
    assert world.store.read(JOB).unheard == 2
    ticket = Ticket(JOB, held.epoch, held.seq + 2)
    progress = Progress("{}", "heard", {"i": 0}, [{"role": "user", "content": "first"}], heard=1)
    assert world.store.commit(ticket, progress) == "mail"
    assert [mail.number for mail in world.store.mail(JOB)] == [2]
    assert world.store.commit(ticket, progress) == "mail", "sent again"
    assert world.store.read(JOB).unheard == 1
    last = Progress("{}", "heard", heard=2)
    assert world.store.commit(Ticket(JOB, held.epoch, held.seq + 3), last) == "committed"
    assert world.store.mail(JOB) == []


def test_a_fenced_commit_hears_nothing(world: World) -> None:
    submit(world)
    held = take(world)
    world.store.message(JOB, Mail(text="hello"), "m1")
    stale = Ticket(JOB, held.epoch - 1, held.seq + 1)
    assert world.store.commit(stale, Progress("{}", "heard", heard=1)) == "fenced"
    assert world.store.read(JOB).unheard == 1


def test_the_same_message_sent_again_is_one(world: World) -> None:
    submit(world)
    for _ in range(2):
        world.store.message(JOB, Mail(text="hello"), "m1")
    assert world.store.read(JOB).unheard == 1
    assert kinds(world).count("message") == 1


def test_an_older_message_sent_again_is_the_same_one(world: World) -> None:
    """Also one that has been heard: a caller may try again for as long as it likes."""
    submit(world)
    held = take(world)
    for number in range(1, MESSAGES_KNOWN + 3):
        world.store.message(JOB, Mail(text=str(number)), f"m{number}")
        progress = Progress("{}", "heard", heard=number)
        world.store.commit(Ticket(JOB, held.epoch, held.seq + number), progress)
    before = world.raw(JOB)
    for number in range(3, MESSAGES_KNOWN + 3):
        world.store.message(JOB, Mail(text="again"), f"m{number}")
    assert world.raw(JOB) == before
    world.store.message(JOB, Mail(text="forgotten"), "m2")
    assert world.store.read(JOB).unheard == 1


def test_a_message_sent_again_to_a_job_that_has_ended_since_is_no_error(world: World) -> None:
    submit(world)
    for message_id in ("m1", "m2"):
        world.store.message(JOB, Mail(text=message_id), message_id)
    world.store.cancel(JOB)
    world.store.message(JOB, Mail(text="m1"), "m1")
    assert kinds(world).count("message") == 2


def test_messages_do_not_pile_up_without_end(world: World) -> None:
    submit(world)
    for number in range(100):
        world.store.message(JOB, Mail(text=str(number)), f"m{number}")
    before = world.raw(JOB)
    with pytest.raises(Conflict, match="100 messages wait already"):
        world.store.message(JOB, Mail(text="one more"), "m100")
    assert world.raw(JOB) == before


@pytest.mark.parametrize("status", [status for status in JobStatus if not status.ended])
def test_every_job_that_has_not_ended_takes_a_message(world: World, status: JobStatus) -> None:
    bring_to(world, status)
    world.store.message(JOB, Mail(text="hello"), "m1")
    assert world.store.read(JOB).status is status
    assert world.store.read(JOB).unheard == 1


@pytest.mark.parametrize("status", [status for status in JobStatus if status.ended])
def test_an_ended_job_hears_nothing(world: World, status: JobStatus) -> None:
    bring_to(world, status)
    before = world.raw(JOB)
    with pytest.raises(Conflict, match=f"has ended \\({status}\\)"):
        world.store.message(JOB, Mail(text="hello"), "m1")
    with pytest.raises(Conflict, match="has ended"):
        world.store.halt(JOB, Wish(by="anna"))
    assert world.raw(JOB) == before


@pytest.mark.parametrize("job_id", ["unknown", "no such job", ""])
def test_an_unknown_job_hears_nothing(world: World, job_id: str) -> None:
    with pytest.raises(JobNotFound):
        world.store.message(job_id, Mail(text="hello"), "m1")
    with pytest.raises(JobNotFound):
        world.store.halt(job_id, Wish())


# --- wishes to pause -----------------------------------------------------------------------------


def test_a_wish_to_pause_is_told_at_each_commit_until_the_operators_pause(world: World) -> None:
    submit(world)
    held = take(world)
    world.store.halt(JOB, Wish(by="anna", note="stop it"))
    world.store.halt(JOB, Wish(by="ben"))
    assert world.store.read(JOB).pause_wanted == Wish(by="anna", note="stop it")
    assert kinds(world).count("pause_wanted") == 1
    assert commit(world, held, 1) == "halt"
    settle(world, held, 2, JobStatus.QUEUED)
    held = take(world)
    assert held.halt == Wish(by="anna", note="stop it")
    settle(world, held, 1, JobStatus.PAUSED, QUESTION)
    assert world.store.read(JOB).pause_wanted is not None, "another pause is not the wanted one"
    answer(world)
    operator = QUESTION.model_copy(update={"id": "p2", "kind": PauseKind.OPERATOR})
    settle(world, take(world), 1, JobStatus.PAUSED, operator, consumes=True)
    assert world.store.read(JOB).pause_wanted is None
    with pytest.raises(Conflict, match="is paused already"):
        world.store.halt(JOB, Wish())


def test_a_cancel_comes_before_a_wish_and_a_wish_before_messages(world: World) -> None:
    submit(world)
    held = take(world)
    world.store.message(JOB, Mail(text="hello"), "m1")
    assert commit(world, held, 1) == "mail"
    world.store.halt(JOB, Wish())
    assert commit(world, held, 2) == "halt"
    world.store.cancel(JOB)
    assert commit(world, held, 3) == "cancel"


def test_what_was_never_heard_does_not_outlive_the_job(world: World) -> None:
    submit(world, retention_s=60)
    held = take(world)
    world.store.message(JOB, Mail(text="hello"), "m1")
    world.store.halt(JOB, Wish())
    settle(world, held, 1, JobStatus.SUCCEEDED, DONE)
    world.advance(10 * MINUTE)
    assert isinstance(claim(world), ToPublish)
    world.store.published(JOB)
    world.advance(MINUTE)
    sweep(world)
    assert world.left_behind() == []
