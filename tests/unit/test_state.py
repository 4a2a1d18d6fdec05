"""The run state: small, and read back as it was."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from api_client.runs import RUN_KEYS, numbered, read_event, read_run, write_event
from worker.repeats import count_repeat, is_repeated
from worker.state import Repeats, RunState, Tokens

FULL = RunState(
    version="7",
    steps=3,
    active_ms=1200,
    usage=Tokens(100, 20, 5, estimated=True, cost_micros=1500),
    calls={"rare": 2},
    granted={"steps": 2.5},
    failures=1,
    bad_turns=2,
    problems={"c1": "Fehler: 沒有"},
    approved={"c2": None, "c3": {"x": [1, None]}},
    repeats=Repeats("abc", "def", 2),
    started="c4",
    room=500,
    compacted=3,
    summary=[4, 9],
    children=["job/1"],
    told=["schneller, 快"],
    pauses=1,
    stored=1234,
)


def dumped(state: RunState) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(state.dump())
    return loaded


@pytest.mark.parametrize("state", [RunState(), FULL, RunState(steps=1), RunState(started="x")])
def test_a_state_is_read_back_as_it_was(state: RunState) -> None:
    assert RunState.load(state.dump()) == state


def test_a_job_that_has_not_begun_has_the_first_state() -> None:
    assert RunState.load(None) == RunState()


def test_what_holds_its_default_takes_no_room() -> None:
    assert len(RunState(version="1", steps=1).dump()) < 30


def test_every_field_has_a_key_of_its_own() -> None:
    names = {f.name for f in fields(RunState)}
    assert set(RUN_KEYS) == names
    assert len(set(RUN_KEYS.values())) == len(names)


def test_the_full_state_sets_every_field() -> None:
    """So that reading it back says something about each."""
    assert [
        f.name for f in fields(RunState) if getattr(FULL, f.name) == getattr(RunState(), f.name)
    ] == []


def test_a_field_of_a_newer_program_is_passed_over() -> None:
    text = json.dumps({**dumped(FULL), "zz": {"later": 1}})
    assert RunState.load(text) == FULL
    assert "zz" not in read_run(text)


def test_the_text_is_ascii_and_one_line() -> None:
    assert FULL.dump().isascii()
    assert "\n" not in FULL.dump()


@pytest.mark.parametrize(
    ("tokens", "stored"),
    [
        (Tokens(), []),
        (Tokens(5), [5]),
        (Tokens(0, 0, 0, estimated=True), [0, 0, 0, 1]),
        (Tokens(1, 2, 3, estimated=False, cost_micros=4), [1, 2, 3, 0, 4]),
    ],
)
def test_zeros_at_the_end_of_an_account_are_left_out(tokens: Tokens, stored: list[int]) -> None:
    assert tokens.dump() == stored
    state = RunState(usage=tokens)
    assert RunState.load(state.dump()).usage == tokens
    assert tokens.total == tokens.prompt_tokens + tokens.completion_tokens


@pytest.mark.parametrize(
    ("field", "read"), [(None, (0, None)), ('12 {"s":1}', (12, '{"s":1}')), ("0 {}", (0, "{}"))]
)
def test_the_number_of_the_commit_stands_before_the_state(field: Any, read: Any) -> None:
    assert numbered(field) == read


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("reply", {"i": 2, "s": 1, "ms": 7, "in": 100, "out": 20}),
        ("reply", {"i": 2, "s": 1, "ms": 7, "in": 100, "out": 20, "cost": 0.5, "est": 1}),
        ("reply", {"i": 2}),
        ("reply", {"i": 2, "s": 1, "ms": 7, "in": True, "out": 20}),
        ("observation", {"i": 3, "s": 1, "ms": 0}),
        ("observation", {"i": 3, "s": 1, "ms": 0, "error": True}),
        ("observation", {}),
        ("paused", {"pause": "p1"}),
        ("r", {"any": 1}),
        ("o", {}),
    ],
)
def test_a_trace_record_is_read_back_as_it_was(kind: str, data: dict[str, Any]) -> None:
    name, value = write_event(kind, data, json.dumps)
    assert read_event(name, value) == (kind, data)


# --- repetitions ---------------------------------------------------------------------------


def times(*seen: tuple[str, str]) -> Repeats:
    repeats = Repeats()
    for action, content in seen:
        count_repeat(repeats, action, content)
    return repeats


def test_the_same_action_with_the_same_result_is_counted() -> None:
    assert times(("a", "x"), ("a", "x"), ("a", "x")).times == 3


def test_another_action_or_another_result_starts_the_count_anew() -> None:
    assert times(("a", "x"), ("a", "x"), ("b", "x")).times == 1
    assert times(("a", "x"), ("a", "x"), ("a", "y")).times == 1
    assert times(("a", "x"), ("b", "x"), ("a", "x")).times == 1


@pytest.mark.parametrize(("limit", "stops"), [(2, True), (3, True), (4, False), (None, False)])
def test_the_last_of_the_allowed_times_is_not_run(limit: int | None, stops: bool) -> None:
    assert is_repeated(times(("a", "x"), ("a", "x")), "a", limit) is stops
    assert not is_repeated(times(("a", "x"), ("a", "x")), "b", limit)
    assert not is_repeated(Repeats(), "a", limit)
