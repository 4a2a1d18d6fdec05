"""The message list: append-only, valid before every request. Rules 4 and 8."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.messages import InvalidHistory, Message, Transcript, observation, system, user


def calling(*ids: str) -> Message:
    function = {"name": "look", "arguments": "{}"}
    calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def said(text: str) -> Message:
    return {"role": "assistant", "content": text}


BEGINNING = [system("goal"), user("task")]


def test_messages_stand_in_the_order_in_which_they_came() -> None:
    transcript = Transcript()
    messages = [*BEGINNING, calling("a"), observation("a", "x"), said("done")]
    assert [transcript.append(message) for message in messages] == [0, 1, 2, 3, 4]
    assert transcript.stored == messages
    assert list(transcript.request()) == messages
    assert transcript.replies == 2


def test_open_calls_are_pending_in_the_models_order() -> None:
    transcript = Transcript([*BEGINNING, calling("b", "a", "c"), observation("a", "x")])
    assert [call["id"] for call in transcript.pending] == ["b", "c"]
    assert [call["id"] for call in transcript.last_calls] == ["b", "a", "c"]
    assert transcript.call_ids == {"a", "b", "c"}


def test_answers_that_came_late_are_shown_in_the_order_of_the_calls() -> None:
    """A person's answer is stored last and shown where its call stands."""
    transcript = Transcript([*BEGINNING, calling("a", "b", "c")])
    for call_id in ("b", "c", "a"):
        transcript.append(observation(call_id, call_id))
    assert [m["tool_call_id"] for m in transcript.stored[3:]] == ["b", "c", "a"]
    assert [m["tool_call_id"] for m in transcript.request()[3:]] == ["a", "b", "c"]
    transcript.append(calling("d", "e"))
    for call_id in ("e", "d"):
        transcript.append(observation(call_id, call_id))
    shown = [m.get("tool_call_id") for m in transcript.request()]
    assert shown == [None, None, None, "a", "b", "c", None, "d", "e"]


@pytest.mark.parametrize("message", [user("x"), said("x"), calling("z"), system("x")])
def test_rule_8_nothing_comes_while_a_call_is_open(message: Message) -> None:
    transcript = Transcript([*BEGINNING, calling("a", "b"), observation("a", "x")])
    with pytest.raises(InvalidHistory, match=r"unanswered: b$"):
        transcript.append(message)
    with pytest.raises(InvalidHistory, match="a model message"):
        transcript.request()


@pytest.mark.parametrize("call_id", ["b", "", None, 7])
def test_an_answer_must_name_an_open_call(call_id: Any) -> None:
    transcript = Transcript([*BEGINNING, calling("a")])
    message = {"role": "tool", "tool_call_id": call_id, "content": "x"}
    with pytest.raises(InvalidHistory, match="is not open"):
        transcript.append(message)


def test_a_call_is_answered_once() -> None:
    transcript = Transcript([*BEGINNING, calling("a", "b"), observation("a", "x")])
    with pytest.raises(InvalidHistory, match="'a', which is not open"):
        transcript.append(observation("a", "y"))


def test_two_calls_of_one_reply_have_two_ids() -> None:
    with pytest.raises(InvalidHistory, match="two calls of one reply have the id 'a'"):
        Transcript([*BEGINNING, calling("a", "a")])


def test_rule_4_each_message_is_carried_by_one_commit() -> None:
    transcript = Transcript([*BEGINNING, calling("a")])
    assert transcript.take_unsaved() == []
    transcript.append(observation("a", "x"))
    transcript.append(said("y"))
    assert transcript.take_unsaved() == [observation("a", "x"), said("y")]
    assert transcript.take_unsaved() == []
    transcript.append(user("z"))
    assert transcript.take_unsaved() == [user("z")]


def test_an_empty_transcript() -> None:
    transcript = Transcript()
    assert (transcript.pending, list(transcript.last_calls), transcript.take_unsaved()) == (
        [],
        [],
        [],
    )
    assert list(transcript.request()) == []


def test_messages_are_not_changed() -> None:
    messages = [*BEGINNING, calling("a", "b"), observation("b", "x"), observation("a", "y")]
    before = copy.deepcopy(messages)
    Transcript(messages).request()
    assert messages == before


@given(st.data())
def test_whatever_the_order_of_the_answers_the_view_is_valid(data: st.DataObject) -> None:
    transcript = Transcript(BEGINNING)
    for step in range(data.draw(st.integers(1, 5))):
        ids = [f"c{step}-{n}" for n in range(data.draw(st.integers(0, 4)))]
        transcript.append(calling(*ids) if ids else said("x"))
        for call_id in data.draw(st.permutations(ids)):
            transcript.append(observation(call_id, call_id))
    view = list(transcript.request())
    assert sorted(map(id, view)) == sorted(map(id, transcript.stored))
    wanted: list[str] = []
    for message in view:
        if message["role"] == "tool":
            assert message["tool_call_id"] == wanted.pop(0)
        else:
            assert wanted == []
            wanted = [call["id"] for call in message.get("tool_calls") or ()]
    again = Transcript(transcript.stored)
    assert list(again.request()) == view
