"""What a model is shown of a long transcript: always valid, whatever is left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker import Agent, run_inline, tool
from worker.errors import AgentDefinitionError
from worker.estimate import count_tokens
from worker.memory import LastTokens, Summarised, SummaryPlace, shown
from worker.messages import Message, Transcript, observation, system, user
from worker.models import FunctionModel, ModelError
from worker.texts import ENGLISH

GOAL, TASK = "Find things.", "Find the thing."


def reply(step: int, calls: int) -> Message:
    entries = [
        {
            "id": f"c{step}_{n}",
            "type": "function",
            "function": {"name": "look", "arguments": '{"x": 1}'},
        }
        for n in range(calls)
    ]
    message: Message = {"role": "assistant", "content": f"plan {step}"}
    return {**message, "tool_calls": entries} if entries else message


@st.composite
def transcripts(draw: st.DrawFn) -> list[Message]:
    """Valid lists: goal, task, then groups of a reply with 0 to 4 answers, and notes."""
    messages = [system(GOAL), user(TASK)]
    for step in range(draw(st.integers(0, 12))):
        calls = draw(st.integers(0, 4))
        messages.append(reply(step, calls))
        sizes = [draw(st.integers(0, 30)) for _ in range(calls)]
        messages += [observation(f"c{step}_{n}", "word " * size) for n, size in enumerate(sizes)]
        if calls == 0:
            messages.append(user("a note"))
    return messages


def is_valid(messages: list[Message]) -> bool:
    """Whether a strict provider takes the list: only a first system message, all calls answered."""
    transcript = Transcript(messages)
    systems = [i for i, m in enumerate(messages) if m["role"] == "system"]
    return not transcript.pending and systems == [0]


@given(transcripts(), st.integers(1, 400))
def test_b2_a_view_of_any_size_is_valid_and_keeps_goal_and_task(
    messages: list[Message], room: int
) -> None:
    view = list(shown(messages, room, count_tokens, ENGLISH))
    assert is_valid(view)
    assert view[:2] == messages[:2]
    assert view[-1] == messages[-1]


@given(transcripts(), st.integers(1, 400))
def test_what_is_left_out_is_said_and_what_is_kept_is_a_tail(
    messages: list[Message], room: int
) -> None:
    view = list(shown(messages, room, count_tokens, ENGLISH))
    if view == messages:
        return
    kept = len(view) - 3
    assert view[3:] == messages[len(messages) - kept :]
    assert view[2] == user(ENGLISH.long_history(len(messages) - 2 - kept))


@given(transcripts(), st.integers(40, 400))
def test_a_view_is_within_its_room_unless_the_last_group_alone_is_larger(
    messages: list[Message], room: int
) -> None:
    view = list(shown(messages, room, count_tokens, ENGLISH))
    note = count_tokens([user(ENGLISH.long_history(999))])
    groups = sum(m["role"] != "tool" for m in view[2:])
    slack = len(view)  # each part of an estimate is rounded up
    assert count_tokens(view) <= room + note + slack or groups <= 2


def test_a_summary_stands_in_for_what_it_covers() -> None:
    messages = [system(GOAL), user(TASK), reply(0, 1), observation("c0_0", "old")]
    messages += [reply(1, 1), observation("c1_0", "new"), user("Summary: old was seen.")]
    view = shown(messages, None, count_tokens, ENGLISH, SummaryPlace(upto=4, at=6))
    assert [m.get("content") for m in view] == [
        GOAL,
        TASK,
        "Summary: old was seen.",
        "plan 1",
        "new",
    ]


@pytest.mark.parametrize("kind", [LastTokens, Summarised])
def test_a_memory_without_room_is_refused(kind: Any) -> None:
    with pytest.raises(AgentDefinitionError, match="tokens=0"):
        kind(0)


# --- in the loop ---------------------------------------------------------------------------


@tool(effects="safe")
def look(x: int) -> str:
    """Look."""
    return f"{x} " + "seen " * 40


def _steps(messages: list[Message], last: int) -> Any:
    """Look ``last`` times, then answer; counts by the last reply's call id."""
    done = [m for m in messages if m.get("tool_calls")]
    step = int(done[-1]["tool_calls"][0]["id"]) if done else 0
    if step >= last:
        return "done"
    call = {"name": "look", "arguments": f'{{"x": {step}}}'}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": str(step + 1), "type": "function", "function": call}],
    }


def test_the_last_tokens_are_shown_and_the_store_keeps_everything() -> None:
    seen: list[int] = []

    def model(messages: list[Message]) -> Any:
        assert is_valid(messages)
        seen.append(len(messages))
        return _steps(messages, 10)

    agent = Agent(name="a", goal=GOAL, tools=[look], memory=LastTokens(200))
    run = run_inline(agent, TASK, model=model)
    assert run.answer == "done"
    assert max(seen) < 10
    assert len(run.messages) == 2 + 2 * 10 + 1


def test_b3_a_context_error_is_answered_with_a_shorter_view_never_the_same() -> None:
    sizes: list[int] = []

    def model(messages: list[Message]) -> Any:
        sizes.append(len(messages))
        if len(messages) > 12:
            raise ModelError("too long", "compact", code="context_length_exceeded")
        return _steps(messages, 12)

    run = run_inline(Agent(name="a", goal=GOAL, tools=[look]), TASK, model=model)
    assert run.answer == "done"
    rejected = [i for i, size in enumerate(sizes) if size > 12]
    assert rejected
    assert all(sizes[i + 1] < sizes[i] for i in rejected)
    assert "compacted" in [event.kind for event in run.events]
    assert len(run.messages) == 2 + 2 * 12 + 1


def test_a_context_error_that_nothing_can_shorten_waits_for_a_person() -> None:
    def model(_: list[Message]) -> Any:
        raise ModelError("too long", "compact", code="context_length_exceeded")

    run = run_inline(Agent(name="a", goal=GOAL, tools=[look]), TASK, model=model)
    assert run.pause is not None
    assert run.pause.kind == "model_error"
    assert len(run.messages) == 2 or run.messages == []


def test_summaries_are_written_once_each_and_paid_for() -> None:
    asked: list[str] = []

    def summary(messages: list[Message]) -> str:
        asked.append(messages[1]["content"])
        return f"summary number {len(asked)}"

    views: list[list[Message]] = []

    def model(messages: list[Message]) -> Any:
        views.append(list(messages))
        return _steps(messages, 12)

    memory = Summarised(300, model=FunctionModel(summary))
    agent = Agent(name="a", goal=GOAL, tools=[look], memory=memory)
    run = run_inline(agent, TASK, model=model)
    assert run.answer == "done"
    assert len(asked) >= 2
    assert all(is_valid(view) for view in views)
    assert f"summary number {len(asked)}" in views[-1][2]["content"]
    assert "summary number 1" in asked[1]
    kinds = [event.kind for event in run.events]
    assert kinds.count("summary") == len(asked)
    assert [m["content"] for m in run.messages if "summary number" in str(m["content"])]


def test_a_failing_summary_model_costs_no_answer() -> None:
    def broken(_: list[Message]) -> str:
        raise ModelError("busy", "retry")

    memory = Summarised(300, model=FunctionModel(broken))
    agent = Agent(name="a", goal=GOAL, tools=[look], memory=memory)
    run = run_inline(agent, TASK, model=lambda messages: _steps(messages, 8))
    assert run.answer == "done"
