"""The inbox: filters, order, pages, and that only paused jobs stand in it. On every store."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any, get_args

import pytest

from api_client.contract import (
    Answer,
    Appointment,
    Event,
    JobStatus,
    JobView,
    Pause,
    PauseKind,
)
from api_client.errors import InvalidInput
from api_client.inbox import InboxFilter, Order
from api_client.labels import may_answer
from tests.contract.acts import QUESTION, settle, submit, take
from tests.contract.worlds import MINUTE, SECOND, World

ORDERS: tuple[Order, ...] = get_args(Order)
EVERYBODY = InboxFilter()


def pause(world: World, job_id: str, **changes: Any) -> None:
    """Accept a job of ``agent`` and ``tenant``, and let it pause; then a second passes."""
    spec = {name: changes.pop(name) for name in ("agent", "tenant") if name in changes}
    submit(world, job_id, **spec)
    record: Pause = QUESTION.model_copy(update=changes)
    settle(world, take(world, job_id), 1, JobStatus.PAUSED, record)
    world.advance(SECOND)


def deadline(seconds: float) -> tuple[Appointment, ...]:
    return (Appointment(after_s=seconds, do="decide", signal={"kind": "answer", "value": 1}),)


def fill(world: World) -> None:
    pause(world, "a", agent="shop", tenant="north", labels=("sales",))
    pause(world, "b", agent="shop", kind=PauseKind.BUDGET, timetable=deadline(900))
    pause(world, "c", agent="docs", labels=("sales", "leads"), timetable=deadline(60))
    pause(world, "d", agent="docs", tenant="north", kind=PauseKind.BUDGET)
    submit(world, "queued")


def ids(world: World, chosen: InboxFilter = EVERYBODY, **how: Any) -> list[str]:
    """All pages, one after the other."""
    found, cursor = [], ""
    while True:
        page = world.store.inbox(chosen, cursor=cursor, **how)
        assert len(page) <= how.get("limit", 100)
        assert page.total >= len(page)
        found += [view.job_id for view in page]
        cursor = page.next_cursor
        if not cursor:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_each_order_over_pages_of_any_size(world: World, limit: int) -> None:
    fill(world)
    assert ids(world, limit=limit) == ["a", "b", "c", "d"]
    assert ids(world, limit=limit, order="newest") == ["d", "c", "b", "a"]
    assert ids(world, limit=limit, order="deadline") == ["c", "b", "a", "d"]


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["a", "b", "c", "d"]),
    ({"agent": "shop"}, ["a", "b"]),
    ({"agent": "nobody"}, []),
    ({"tenant": "north"}, ["a", "d"]),
    ({"tenant": ""}, ["b", "c"]),
    ({"kind": PauseKind.BUDGET}, ["b", "d"]),
    ({"label": "sales"}, ["a", "c"]),
    ({"label": ""}, ["b", "d"]),
    ({"label": "sales", "agent": "docs"}, ["c"]),
    ({"visible_to": ("leads",)}, ["b", "c", "d"]),
    ({"visible_to": ("sales", "leads")}, ["a", "b", "c", "d"]),
    ({"visible_to": ()}, ["b", "d"]),
    ({"visible_to": ("leads",), "kind": PauseKind.HAND_TO_HUMAN}, ["c"]),
    ({"agent": "docs", "tenant": "north", "kind": PauseKind.BUDGET}, ["d"]),
]


@pytest.mark.parametrize(("wanted", "expected"), FILTERS, ids=lambda value: str(value))
@pytest.mark.parametrize("order", ORDERS)
def test_filters(world: World, wanted: dict[str, Any], expected: list[str], order: Order) -> None:
    fill(world)
    chosen = InboxFilter.model_validate(wanted)
    assert sorted(ids(world, chosen, order=order)) == expected
    assert sorted(ids(world, chosen, order=order, limit=1)) == expected
    if len(wanted) < 2:
        assert world.store.inbox(chosen, order=order).total == len(expected)


@pytest.mark.parametrize("order", ORDERS)
def test_the_age_is_counted_from_the_pause(world: World, order: Order) -> None:
    fill(world)
    world.advance(MINUTE)
    pause(world, "young")
    assert sorted(ids(world, InboxFilter(older_than_s=30), order=order)) == ["a", "b", "c", "d"]
    assert ids(world, InboxFilter(older_than_s=3600), order=order) == []
    assert "young" in ids(world, InboxFilter(older_than_s=0), order=order)


LEAVING: list[Callable[[World], Any]] = [
    lambda world: world.store.signal("a", "p1", Answer(value=1), "s1"),
    lambda world: world.store.cancel("a"),
]


@pytest.mark.parametrize("leave", LEAVING, ids=["a signal", "a cancel"])
@pytest.mark.parametrize(("wanted", "expected"), FILTERS, ids=lambda value: str(value))
def test_a_job_leaves_every_index(
    world: World, leave: Callable[[World], Any], wanted: dict[str, Any], expected: list[str]
) -> None:
    fill(world)
    leave(world)
    chosen = InboxFilter.model_validate(wanted)
    left = [job_id for job_id in expected if job_id != "a"]
    assert sorted(ids(world, chosen)) == left
    assert sorted(ids(world, chosen, order="deadline")) == left
    if len(wanted) < 2:
        assert world.store.inbox(chosen).total == len(left)


def test_an_escalated_pause_stands_under_its_new_labels(world: World) -> None:
    table = (Appointment(after_s=60, do="escalate", labels=("leads",)), *deadline(600))
    pause(world, "a", labels=("sales",), timetable=table)
    assert world.store.pace("a", "p1", 0, ("leads",))
    assert ids(world, InboxFilter(label="sales")) == []
    (view,) = world.store.inbox(InboxFilter(label="leads"))
    assert view.pause is not None
    assert view.pause.labels == ("leads",)
    world.store.signal("a", "p1", Answer(value=1), "s1")
    assert ids(world, InboxFilter(label="leads")) == []
    assert ids(world, order="deadline") == []


def test_a_page_goes_on_where_it_was_while_jobs_leave(world: World) -> None:
    fill(world)
    page = world.store.inbox(EVERYBODY, limit=2)
    world.store.cancel("b")
    rest = world.store.inbox(EVERYBODY, limit=2, cursor=page.next_cursor)
    assert [view.job_id for view in rest] == ["c", "d"]


def test_who_follows_a_trace_reads_the_pause_and_what_comes_after(world: World) -> None:
    """On Redis the trace is stored anew at a pause: offsets, and who waits for records, stay."""
    submit(world, "a")
    held = take(world, "a")
    seen = world.store.events("a")
    found: list[Event] = []
    follower = Thread(
        target=lambda: found.extend(world.store.events("a", seen[-1].id, block_s=2.0))
    )
    follower.start()
    settle(world, held, 1, JobStatus.PAUSED, QUESTION)
    follower.join(10)
    assert [event.kind for event in found] == ["paused"]
    world.store.signal("a", "p1", Answer(value=1), "s1")
    (signal,) = world.store.events("a", found[-1].id)
    assert signal.kind == "signal"
    assert [e.id for e in world.store.events("a")] == [e.id for e in (*seen, *found, signal)]


def test_a_reviewer_sees_exactly_what_they_may_answer(world: World) -> None:
    fill(world)
    everything: list[JobView] = list(world.store.inbox(EVERYBODY))
    for held in [(), ("sales",), ("leads",), ("x",)]:
        seen = ids(world, InboxFilter(visible_to=held))
        assert seen == [
            v.job_id for v in everything if v.pause and may_answer(v.pause.labels, held)
        ]


@pytest.mark.parametrize("cursor", ["x", "eA==", "W10=", "é", "bnVsbA=="])
def test_what_is_no_cursor_is_refused(world: World, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="inbox cursor"):
        world.store.inbox(EVERYBODY, cursor=cursor)


def test_a_cursor_belongs_to_its_order(world: World) -> None:
    fill(world)
    cursor = world.store.inbox(EVERYBODY, limit=1).next_cursor
    with pytest.raises(InvalidInput, match="in the order 'oldest'"):
        world.store.inbox(EVERYBODY, limit=1, cursor=cursor, order="newest")


def test_an_unknown_order_and_an_empty_page_are_refused(world: World) -> None:
    order: Any = "random"
    with pytest.raises(InvalidInput, match="oldest, newest or deadline"):
        world.store.inbox(EVERYBODY, order=order)
    with pytest.raises(InvalidInput, match="limit 0"):
        world.store.inbox(EVERYBODY, limit=0)
