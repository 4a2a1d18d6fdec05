"""Telling a job something, and wanting it paused, while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api_client.contract import JobStatus, PauseKind
from api_client.errors import Conflict, InvalidInput
from worker.agent import Agent
from worker.models import FunctionModel
from worker.models.scripted import act
from worker.testing import InlineClient
from worker.tools import build_tool, hand_to_human

Hook = Callable[[], Any]


class Case:
    """A job of two steps; ``hooks`` run inside its model calls and its tool, by name."""

    def __init__(self, **hooks: Hook) -> None:
        self.hooks = hooks
        self.done: list[int] = []
        self.seen: list[list[str]] = []
        agent = Agent(
            name="shop",
            goal="Sell.",
            tools=[build_tool(self.pay, effects="once"), hand_to_human],
            model=FunctionModel(self.reply),
        )
        self.client = InlineClient([agent], on_demand=True)
        self.id = self.client.submit("shop", "task")

    def pay(self, x: int) -> str:
        """Pay."""
        self.done.append(x)
        self.hooks.get("tool", list)()
        return f"paid {x}"

    def reply(self, messages: list[dict[str, Any]]) -> Any:
        self.seen.append([m["content"] for m in messages if m["role"] == "user"])
        step = sum(m["role"] == "assistant" for m in messages) + 1
        self.hooks.get(f"model{step}", list)()
        return "done" if step > 2 else act(f"step {step}", ("pay", {"x": step}))

    def run(self) -> None:
        self.client.run_jobs()

    def kinds(self) -> list[str]:
        return [event.kind for event in self.client.trace(self.id)]


def test_a_queued_job_reads_its_messages_before_its_first_reply() -> None:
    case = Case()
    case.client.message(case.id, "Be quick.", by="anna")
    case.client.message(case.id, "Be kind.", by="ben", note="he is new")
    case.run()
    assert case.seen[0] == ["task", "Be quick.", "Be kind."]
    assert case.client.result(case.id) == "done"
    assert case.client.get(case.id).unheard == 0
    assert case.kinds().count("message") == 2
    (event,) = [e for e in case.client.trace(case.id) if e.kind == "heard"]
    assert event.data == {"i": 2, "n": 2}


@pytest.mark.parametrize("where", ["model1", "tool"])
def test_a_running_job_reads_a_message_before_its_next_reply(where: str) -> None:
    case = Case()
    told: list[str] = []

    def tell() -> None:
        if not told:
            told.append("x")
            case.client.message(case.id, "Stop after this.")

    case.hooks[where] = tell
    case.run()
    assert case.seen == [["task"], ["task", "Stop after this."], ["task", "Stop after this."]]
    assert case.done == [1, 2], "nothing ran twice"


def test_a_paused_job_reads_messages_when_it_goes_on() -> None:
    case = Case(model1=lambda: case.client.pause(case.id, by="anna"))
    case.run()
    assert case.client.get(case.id).status is JobStatus.PAUSED
    case.client.message(case.id, "Go slowly.")
    assert case.client.get(case.id).status is JobStatus.PAUSED
    case.client.signal(case.id, {"kind": "retry"})
    case.run()
    assert case.seen[1] == ["task", "Go slowly."]


@pytest.mark.parametrize(("text", "said"), [("", "text"), ("  ", "empty"), ("x" * 100_001, "text")])
def test_a_message_has_a_text_of_a_sensible_length(text: str, said: str) -> None:
    case = Case()
    with pytest.raises(InvalidInput, match=said):
        case.client.message(case.id, text)
    assert case.client.get(case.id).unheard == 0


# --- pausing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "done", "steps"), [("model1", [], 1), ("tool", [1], 1), ("model2", [1], 2)]
)
def test_a_job_pauses_at_its_next_commit_and_goes_on_from_there(
    where: str, done: list[int], steps: int
) -> None:
    case = Case()
    case.hooks[where] = lambda: (
        case.client.pause(case.id, by="anna", note="look first") if "paused" not in case.kinds()
        else None
    )  # fmt: skip
    case.run()
    view = case.client.get(case.id)
    assert view.pause is not None
    assert (view.pause.kind, view.steps) == (PauseKind.OPERATOR, steps)
    assert view.pause.question == "Paused by anna: look first. Go on, or finish the job?"
    assert view.pause.details == {"by": "anna", "note": "look first"}
    assert (case.done, view.pause_wanted) == (done, None)
    case.client.signal(case.id, {"kind": "retry", "by": "ben"})
    case.run()
    assert case.client.result(case.id) == "done"
    assert case.done == [1, 2], "nothing ran twice"


def test_a_queued_job_pauses_before_anything_runs() -> None:
    case = Case()
    case.client.pause(case.id)
    case.run()
    view = case.client.get(case.id)
    assert view.pause is not None
    assert view.pause.question.startswith("Paused by somebody who gave no name.")
    assert case.seen == []
    case.client.signal(case.id, {"kind": "retry"})
    case.run()
    assert case.client.result(case.id) == "done"


def test_a_job_that_paused_for_another_reason_pauses_for_the_operator_afterwards() -> None:
    case = Case()
    ask = act("", ("hand_to_human", {"reason": "?"}))
    agent = Agent(name="shop", goal="Sell.", tools=[hand_to_human])

    def reply(messages: list[dict[str, Any]]) -> Any:
        if len(messages) > 2:
            return "done"
        case.client.pause(case.id, by="anna")
        return ask

    case.client = InlineClient([agent], model=reply, on_demand=True)
    case.id = case.client.submit("shop", "task")
    case.run()
    kinds = []
    for signal in ({"kind": "retry"}, {"kind": "answer", "value": "yes"}):
        pause = case.client.get(case.id).pause
        assert pause is not None
        kinds.append(pause.kind)
        case.client.signal(case.id, signal)
        case.run()
    assert kinds == [PauseKind.OPERATOR, PauseKind.HAND_TO_HUMAN]
    assert case.client.result(case.id) == "done"


def test_what_cannot_be_paused_says_so() -> None:
    case = Case()
    case.client.pause(case.id)
    case.run()
    with pytest.raises(Conflict, match="is paused already"):
        case.client.pause(case.id)
    case.client.cancel(case.id)
    with pytest.raises(Conflict, match="has ended"):
        case.client.pause(case.id)
