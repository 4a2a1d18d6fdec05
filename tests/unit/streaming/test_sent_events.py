"""Server-sent events, however the network cuts them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.models.base import ModelError
from worker.models.streaming import SentEvent, merged, read_data, sent_events

STREAM = (
    ": keep-alive\n\n"
    'event: message_start\r\ndata: {"a": 1}\r\n\r\n'
    "data:no blank\ndata: second line\nid: 7\n\n"
    "event: unfinished business\n\n"
    "data: Grüße 你好 🎉\n\n"
    "data: [DONE]\n\n"
    "data: cut off"
).encode()
EVENTS = [
    SentEvent("", ""),
    SentEvent("message_start", '{"a": 1}'),
    SentEvent("", "no blank\nsecond line"),
    SentEvent("", "Grüße 你好 🎉"),
    SentEvent("", "[DONE]"),
]


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    return [raw[a:b] for a, b in pairwise(edges)]


@given(st.lists(st.integers(0, 10_000), max_size=40))
def test_the_places_where_a_stream_is_cut_change_nothing(places: list[int]) -> None:
    assert list(sent_events(cut(STREAM, places))) == EVENTS


def test_old_line_ends_are_understood() -> None:
    assert list(sent_events([b"data: a\r", b"\rdata: b\r\r"])) == [
        SentEvent("", "a"),
        SentEvent("", "b"),
    ]


@pytest.mark.parametrize("data", ["{", "[1]", "hello", '{"a": ' * 100_000])
def test_what_is_no_object_is_a_malformed_answer(data: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_data(SentEvent("", data))
    assert (caught.value.fate, caught.value.code) == ("retry", "malformed_answer")


@pytest.mark.parametrize(
    ("old", "new", "both"),
    [
        ("Hel", "lo", "Hello"),
        (None, "x", "x"),
        ("x", None, "x"),
        ({"a": "1", "n": 1}, {"a": "2", "b": []}, {"a": "12", "n": 1, "b": []}),
        ({"id": "a", "type": "f"}, {"id": "a", "type": "f"}, {"id": "a", "type": "f"}),
        ({"name": "f"}, {"name": ""}, {"name": "f"}),
        ([1], [2], [1, 2]),
        (3, 4, 4),
        (
            [{"index": 0, "type": "reasoning.text", "text": "I th"}],
            [{"index": 0, "type": "reasoning.text", "text": "ink"}, {"index": 1, "text": "!"}],
            [{"index": 0, "type": "reasoning.text", "text": "I think"}, {"index": 1, "text": "!"}],
        ),
    ],
)
def test_pieces_of_a_value_are_put_together(old: object, new: object, both: object) -> None:
    assert merged(old, new) == both
