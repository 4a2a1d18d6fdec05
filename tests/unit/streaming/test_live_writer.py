"""Pieces on their way to the live stream: in batches, by another thread, harming nobody."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from api_client.errors import StoreUnavailable
from worker.live import BATCH_PIECES, LiveWriter, joined
from worker.models.base import ALIVE, Delta, StreamStopped
from worker.store.base import LiveAnswer


class Stream:
    """What was written; answers as it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self.answer: LiveAnswer = "committed"
        self.error: Exception | None = None
        self._changed = threading.Condition()

    def emit(self, records: Sequence[dict[str, Any]]) -> LiveAnswer:
        with self._changed:
            self.batches.append(list(records))
            self._changed.notify_all()
        if self.error is not None:
            raise self.error
        return self.answer

    def wait_for(self, batches: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.batches) >= batches, 10)

    @property
    def text(self) -> str:
        return "".join(record["text"] for batch in self.batches for record in batch)


@pytest.fixture
def stream() -> Stream:
    return Stream()


def test_everything_is_written_before_the_writer_is_left(stream: Stream) -> None:
    with LiveWriter(stream.emit, 3) as show:
        for n in range(100):
            show(Delta("text", f"{n} "))
    assert stream.text == "".join(f"{n} " for n in range(100))
    first, *others = [record for batch in stream.batches for record in batch]
    assert first == {"step": 3, "kind": "begin", "text": ""}
    assert {(r["step"], r["kind"]) for r in others} == {(3, "text")}


def test_the_beginning_is_written_before_any_piece(stream: Stream) -> None:
    with LiveWriter(stream.emit, 1):
        stream.wait_for(1)
    assert stream.batches[0][0]["kind"] == "begin"


def test_a_piece_waits_for_few_others_and_not_for_the_end(stream: Stream) -> None:
    with LiveWriter(stream.emit, 1) as show:
        stream.wait_for(1)
        show(Delta("text", "a"))
        show(Delta("text", "b"))
        stream.wait_for(2)
        assert stream.text == "ab"
        for _ in range(BATCH_PIECES):
            show(Delta("text", "c"))
        stream.wait_for(3)


def test_a_slow_store_holds_up_no_reply(stream: Stream) -> None:
    gate = threading.Event()

    def slow(records: Sequence[dict[str, Any]]) -> LiveAnswer:
        assert gate.wait(10)
        return stream.emit(records)

    with LiveWriter(slow, 1) as show:
        for n in range(1000):
            show(Delta("text", f"{n},"))
        gate.set()
    assert stream.text == "".join(f"{n}," for n in range(1000))


@pytest.mark.parametrize("error", [StoreUnavailable("Redis is away"), ZeroDivisionError("oops")])
def test_a_store_that_fails_costs_the_view_and_nothing_else(
    stream: Stream, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    stream.error = error
    with caplog.at_level(logging.WARNING), LiveWriter(stream.emit, 1) as show:
        stream.wait_for(1)
        for _ in range(50):
            show(Delta("text", "x"))
    assert len(stream.batches) == 1
    assert [r.message for r in caplog.records] == [
        f"the rest of this reply is not shown live: {error}"
    ]


@pytest.mark.parametrize("why", ["cancel", "fenced"])
@pytest.mark.parametrize("piece", [Delta("text", "b"), ALIVE])
def test_the_next_piece_or_sign_of_life_stops_a_reply_that_nobody_wants(
    stream: Stream, why: LiveAnswer, piece: Delta
) -> None:
    stream.answer = why

    def go_on() -> None:
        with LiveWriter(stream.emit, 1) as show:
            stream.wait_for(1)
            while True:  # the answer takes an instant to arrive
                show(piece)

    with pytest.raises(StreamStopped) as caught:
        go_on()
    assert caught.value.why == why


def test_in_silence_the_store_is_asked(stream: Stream) -> None:
    with LiveWriter(stream.emit, 1):
        stream.wait_for(2)
    assert stream.batches[1] == []


def test_neighbours_become_one_record() -> None:
    pieces = [
        Delta("text", "Let "),
        Delta("text", "me."),
        Delta("call", "", 0, "add"),
        Delta("call", '{"a"', 0),
        Delta("call", ": 1}", 0),
        Delta("call", "{}", 1, "ping"),
        Delta("begin"),
        Delta("refusal", "no \ud83d"),
    ]
    assert joined(pieces, 2) == [
        {"step": 2, "kind": "text", "text": "Let me."},
        {"step": 2, "kind": "call", "text": '{"a": 1}', "call": 0, "tool": "add"},
        {"step": 2, "kind": "call", "text": "{}", "call": 1, "tool": "ping"},
        {"step": 2, "kind": "begin", "text": ""},
        {"step": 2, "kind": "refusal", "text": "no �"},
    ]
