"""Spans of time out of trace records."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import Event
from worker.rendering.timeline import Scale, Span, spans, totals
from worker.rendering.transcript import TranscriptReader

MESSAGES: list[dict[str, Any]] = [
    {"role": "system"},
    {"role": "user"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "x"},
]


def event(at: int, kind: str, /, **data: Any) -> Event:
    """A record at a time."""
    return Event(id=f"{at}-0", kind=kind, data=data)


def told(*events: Event) -> list[tuple[str, int, int, str]]:
    """The spans as plain values."""
    reader = TranscriptReader(lambda start: MESSAGES[start:])
    return [(s.kind, s.start, s.end, s.label) for s in spans(events, reader)]


def test_calls_end_with_their_commit_and_took_what_they_say() -> None:
    assert told(
        event(1000, "submitted"),
        event(1500, "claimed", was="queued"),
        event(2000, "reply", i=2, s=1, ms=400),
        event(2300, "observation", i=3, s=1, ms=250),
        event(2900, "finished", i=4, s=2, ms=500),
    ) == [
        ("queue", 1000, 1500, "waits for a worker"),
        ("model", 1600, 2000, "step 1: model"),
        ("tool", 2050, 2300, "look"),
        ("model", 2400, 2900, "step 2: model"),
    ]


def test_waits_are_told_by_what_is_waited_for() -> None:
    assert told(
        event(0, "paused", kind="approval"),
        event(9000, "signal", kind="approve"),
        event(9500, "claimed", was="queued"),
        event(9600, "retry", text="busy", in_s=2),
        event(11600, "claimed", was="waiting"),
        event(11700, "awaiting", jobs=["x"]),
        event(15000, "claimed", was="waiting"),
        event(15100, "held_back", text="model m: its shared limit is used", in_s=3),
        event(18100, "claimed", was="waiting"),
    ) == [
        ("pause", 0, 9000, "waits for a person: approval"),
        ("queue", 9000, 9500, "waits for a worker"),
        ("wait", 9600, 11600, "waits: busy"),
        ("wait", 11700, 15000, "waits: sub-jobs"),
        ("wait", 15100, 18100, "waits: model m: its shared limit is used"),
    ]


def test_a_worker_that_died_leaves_a_gap() -> None:
    assert told(event(0, "reply", i=2, s=1, ms=0), event(7000, "claimed", was="running")) == [
        ("model", 0, 0, "step 1: model"),
        ("gone", 0, 7000, "its worker was gone"),
    ]


def test_what_is_still_waited_for_is_told_at_the_end() -> None:
    assert told(event(5, "paused", kind="budget"))[-1][0] == "pause"


def test_a_long_wait_is_drawn_shorter_and_nothing_else_is() -> None:
    found = [
        Span("model", 0, 100, "a"),
        Span("pause", 100, 1_000_000, "b"),
        Span("tool", 1_000_000, 1_000_100, "c"),
    ]
    place = Scale(found).place
    assert place(0) == 0
    assert place(1_000_100) == 1
    assert place(100) == pytest.approx(100 / 250)
    assert place(1_000_000) == pytest.approx(150 / 250)


def test_calls_side_by_side_share_their_place() -> None:
    place = Scale([Span("tool", 0, 100, "a"), Span("tool", 50, 80, "b")]).place
    assert (place(50), place(80)) == (0.5, 0.8)


def test_an_instant_has_a_place() -> None:
    assert Scale([Span("queue", 7, 7, "a")]).place(7) == 0


def test_times_are_added_up_by_kind() -> None:
    found = [Span("tool", 0, 5, "a"), Span("tool", 3, 9, "b"), Span("queue", 1, 1, "c")]
    assert totals(found) == {"tool": 11}
