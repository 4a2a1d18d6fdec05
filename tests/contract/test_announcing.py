"""Events of all jobs, and announcements that are delivered, on every store."""

from __future__ import annotations

import json
import threading

import pytest

from api_client.contract import Answer, Appointment, JobStatus, Pause
from api_client.errors import InvalidInput
from tests.contract.acts import (
    BROKEN,
    DONE,
    JOB,
    QUESTION,
    answer,
    bring_to,
    claim,
    settle,
    submit,
    sweep,
    take,
)
from tests.contract.worlds import MINUTE, World, run_json
from worker.store.base import Post, Progress, Settlement, Ticket

BOTH = ("webhook", "task")


def told(world: World, after: str = "") -> list[tuple[str, str]]:
    """What followers of all jobs read."""
    return [(event.job_id, event.event) for event in world.store.job_events(after)]


def pause_on(world: World, channels: tuple[str, ...], record: Pause = QUESTION) -> None:
    submit(world)
    held = take(world)
    ticket = Ticket(JOB, held.epoch, held.seq + 1)
    settlement = Settlement(JobStatus.PAUSED, record, channels=channels)
    world.store.settle(ticket, Progress(run_json(1), "paused"), settlement)


def test_what_happens_to_a_job_is_told_in_its_order(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    answer(world)
    settle(world, take(world), 1, JobStatus.SUCCEEDED, DONE, consumes=True)
    assert told(world) == [(JOB, "paused"), (JOB, "resumed"), (JOB, "finished")]
    paused, resumed, _ = world.store.job_events()
    assert (paused.agent, paused.data) == ("shop", {"pause": "p1", "kind": "hand_to_human"})
    by_whom = {"pause": "p1", "kind": "hand_to_human", "signal": "answer", "by": "anna"}
    assert resumed.data == by_whom


@pytest.mark.parametrize("status", [JobStatus.QUEUED, JobStatus.PAUSED])
def test_a_cancel_is_told(world: World, status: JobStatus) -> None:
    bring_to(world, status)
    world.store.cancel(JOB, by="anna", note="no")
    last = world.store.job_events()[-1]
    assert (last.event, last.data) == ("cancelled", {"by": "anna", "note": "no"})


def test_a_failure_is_told_with_its_reason(world: World) -> None:
    submit(world)
    settle(world, take(world), 1, JobStatus.FAILED, BROKEN)
    last = world.store.job_events()[-1]
    assert (last.event, last.data) == ("failed", {"reason": "refused"})


def test_what_is_read_goes_on_behind_a_cursor(world: World) -> None:
    for number in range(6):
        bring_to(world, JobStatus.CANCELLED, f"j{number}")
    first = world.store.job_events(count=4)
    assert len(first) == 4
    rest = world.store.job_events(first[-1].cursor)
    assert sorted(event.job_id for event in [*first, *rest]) == [f"j{n}" for n in range(6)]
    assert world.store.job_events(rest[-1].cursor) == []
    assert world.store.job_events(world.store.job_cursor("$")) == []


def test_a_follower_is_woken(world: World) -> None:
    here = world.store.job_cursor("$")
    submit(world)
    timer = threading.Timer(0.05, world.store.cancel, [JOB])
    timer.start()
    events = world.store.job_events(here, block_s=10)
    timer.join()
    assert [event.event for event in events] == ["cancelled"]


@pytest.mark.parametrize("cursor", ["x", "1-", "é", "1-2-3"])
def test_what_is_no_cursor_is_refused(world: World, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="event cursor"):
        world.store.job_events(cursor)
    with pytest.raises(InvalidInput, match="event cursor"):
        world.store.job_cursor(cursor)


# --- announcements -----------------------------------------------------------------------------


def fetch(world: World, lease_ms: int = MINUTE) -> list[Post]:
    return world.store.fetch_post(10, lease_ms)


def test_a_pause_is_announced_on_each_channel_once(world: World) -> None:
    pause_on(world, BOTH)
    posts = fetch(world)
    assert sorted(post.channel for post in posts) == ["task", "webhook"]
    assert {(post.job_id, post.event, post.agent, post.tries) for post in posts} == {
        (JOB, "paused", "shop", 1)
    }
    assert Pause.model_validate_json(posts[0].payload) == QUESTION
    assert fetch(world) == [], "nobody else gets them now"


def test_nobody_is_told_who_does_not_want_it(world: World) -> None:
    pause_on(world, ())
    assert fetch(world) == []
    assert world.store.deliveries() == []


def test_an_outcome_is_announced_when_it_is_published_and_once(world: World) -> None:
    bring_to(world, JobStatus.SUCCEEDED)
    assert fetch(world) == []
    world.advance(MINUTE)
    claim(world)
    for _ in range(2):
        world.store.published(JOB, ("webhook",))
    (post,) = fetch(world)
    assert (post.event, json.loads(post.payload)["value"]) == ("finished", "42")


def test_reminders_and_escalations_are_announced(world: World) -> None:
    table = (
        Appointment(after_s=1, do="remind"),
        Appointment(after_s=2, do="escalate", labels=("leads",)),
    )
    pause_on(world, (), QUESTION.model_copy(update={"timetable": table}))
    world.store.pace(JOB, "p1", 0, None, ("webhook",))
    world.store.pace(JOB, "p1", 1, ("leads",), ("webhook",))
    assert [post.event for post in fetch(world)] == ["reminder", "escalated"]
    assert [event for _, event in told(world)] == ["paused", "reminder", "escalated"]


def test_an_attempt_whose_taker_died_is_made_again(world: World) -> None:
    pause_on(world, ("webhook",))
    (first,) = fetch(world)
    world.advance(MINUTE)
    (second,) = fetch(world)
    assert (second.post_id, second.tries) == (first.post_id, 2)


def test_a_failed_attempt_waits_and_a_delivered_one_is_over(world: World) -> None:
    pause_on(world, ("webhook",))
    (post,) = fetch(world)
    world.store.note_post(post.post_id, "pending", "the receiver answered 500", 5 * MINUTE)
    (delivery,) = world.store.deliveries(JOB)
    assert (delivery.state, delivery.tries) == ("pending", 1)
    assert delivery.error == "the receiver answered 500"
    assert delivery.due is not None
    world.advance(4 * MINUTE)
    assert fetch(world) == []
    world.advance(MINUTE)
    (post,) = fetch(world)
    world.store.note_post(post.post_id, "delivered")
    (delivery,) = world.store.deliveries(JOB)
    assert (delivery.state, delivery.tries, delivery.due) == ("delivered", 2, None)
    assert world.store.deliveries() == [delivery]
    world.advance(60 * MINUTE)
    assert fetch(world) == []
    world.store.note_post(post.post_id, "pending", "late", 0)
    assert world.store.deliveries(JOB) == [delivery], "what is over stays over"


def test_the_log_names_what_was_given_up_and_what_is_under_way(world: World) -> None:
    pause_on(world, BOTH)
    for post in fetch(world):
        if post.channel == "task":
            world.store.note_post(post.post_id, "given_up", "the broker is away")
    states = {d.channel: (d.state, d.error) for d in world.store.deliveries()}
    assert states == {"task": ("given_up", "the broker is away"), "webhook": ("pending", "")}
    assert len(world.store.deliveries(limit=1)) == 1
    assert world.store.deliveries("unknown") == []


def test_answering_and_ending_leaves_announcements_to_be_delivered(world: World) -> None:
    pause_on(world, ("webhook",))
    world.store.signal(JOB, "p1", Answer(value=1), "s1")
    settle(world, take(world), 1, JobStatus.SUCCEEDED, DONE, consumes=True)
    world.advance(MINUTE)
    claim(world)
    world.store.published(JOB, ("webhook",))
    assert [post.event for post in fetch(world)] == ["paused", "finished"]


def test_announcements_are_forgotten_in_the_end(world: World) -> None:
    submit(world, retention_s=60)
    settle(world, take(world), 1, JobStatus.SUCCEEDED, DONE)
    world.advance(MINUTE)
    claim(world)
    world.store.published(JOB, ("webhook",))
    world.advance(4 * 24 * 60 * MINUTE)
    assert fetch(world) == []
    sweep(world)
    assert world.left_behind() == []
