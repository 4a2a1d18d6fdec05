"""The parts of the demo that need no process: the held model, decisions, the reckoning."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from api_client.contract import Answer, Finish, Pause, PauseKind
from worker.demo import DemoFailed
from worker.demo.held import HeldModel
from worker.demo.play import Answered, check_nothing_ran_twice
from worker.demo.screen import JsonScreen, TerminalScreen, decide
from worker.examples.book import Book
from worker.examples.scripts import CALCULATOR_TASK, COMPENSATION_TASK, DOCS_TASK
from worker.models import FunctionModel, ModelRequest, say
from worker.pauses import ACCEPTS
from worker.rendering import make_console


def request(task: str, replies: int = 0) -> ModelRequest:
    return ModelRequest([{"role": "user", "content": task}, *[say("so far")] * replies])


def echo() -> FunctionModel:
    return FunctionModel(lambda _: "well")


def ask(model: HeldModel, task: str, replies: int) -> None:
    for number in range(replies):
        model.reply(request(task, number))


def test_a_held_model_counts_each_reply() -> None:
    model = HeldModel(echo(), ("never", 1))
    ask(model, "a", 3)
    ask(model, "a", 1)
    ask(model, "b", 1)
    assert (model.asked("a"), model.asked("b"), model.asked("c")) == ([2, 1, 1], [1], [])


def test_a_held_model_estimates_tokens() -> None:
    usage = HeldModel(echo(), ("never", 1)).reply(request("one two three four", 0)).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (6, 2)


def test_a_held_model_lets_one_reply_wait_and_no_other() -> None:
    model = HeldModel(echo(), ("a", 2))
    done = threading.Event()

    def second() -> None:
        model.reply(request("a", 1))
        done.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert model.wait_held(10)
    ask(model, "b", 2)
    ask(model, "a", 1)
    assert not done.is_set()
    model.open()
    thread.join(10)
    assert done.is_set()
    assert model.asked("a") == [1, 1]


def test_nobody_waits_for_a_reply_that_is_not_asked_for() -> None:
    assert not HeldModel(echo(), ("a", 1)).wait_held(0)


@pytest.mark.parametrize("kind", list(PauseKind))
def test_a_decision_is_of_a_kind_that_the_pause_takes(kind: PauseKind) -> None:
    pause = Pause(id="p1", kind=kind, question="?", accepts=ACCEPTS[kind])
    decision = decide(pause, "so be it", "Ada")
    assert decision.kind in pause.accepts
    assert decision.by == "Ada"
    assert isinstance(decision, Answer if "answer" in pause.accepts else Finish)


@pytest.fixture
def stage(tmp_path: Path) -> Any:
    """A stage on which everything went as it should."""
    model = HeldModel(echo(), ("never", 1))
    ask(model, DOCS_TASK, 4)
    ask(model, CALCULATOR_TASK, 4)
    model.reply(request(CALCULATOR_TASK, 3))
    ask(model, COMPENSATION_TASK, 3)
    papers = Book(f"sqlite:///{tmp_path}/papers")
    papers.add("k", "a paper")
    return SimpleNamespace(model=model, papers=papers, key_in_redis=lambda: False)


def test_the_reckoning_is_content_with_what_should_be(stage: Any) -> None:
    check_nothing_ran_twice(stage)


def test_a_second_run_of_a_tool_is_noticed(stage: Any) -> None:
    stage.papers.add("k", "a paper")
    with pytest.raises(DemoFailed, match=r'"papers": \[2\]'):
        check_nothing_ran_twice(stage)


def test_a_second_request_of_a_stored_reply_is_noticed(stage: Any) -> None:
    stage.model.reply(request(DOCS_TASK, 1))
    with pytest.raises(DemoFailed, match=r'"docs": \[1, 2, 1, 1\]'):
        check_nothing_ran_twice(stage)


def test_a_call_that_was_never_interrupted_is_noticed(stage: Any) -> None:
    model = HeldModel(echo(), ("never", 1))
    ask(model, DOCS_TASK, 4)
    ask(model, CALCULATOR_TASK, 4)
    ask(model, COMPENSATION_TASK, 3)
    stage.model = model
    with pytest.raises(DemoFailed, match=r'"calculator": \[1, 1, 1, 1\]'):
        check_nothing_ran_twice(stage)


def test_a_leaked_key_is_noticed(stage: Any) -> None:
    stage.key_in_redis = lambda: True
    with pytest.raises(DemoFailed, match="hidden key"):
        check_nothing_ran_twice(stage)


ANSWERED = [Answered("docs", "j1", "well"), Answered("shop", "j2", {"a": 1}, "after a person")]


def test_the_summary_in_a_pipe() -> None:
    file = io.StringIO()
    screen = TerminalScreen(make_console(file))
    screen.stage("working")
    screen.summary(ANSWERED, 3.21)
    screen.close()
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert lines == [
        "",
        "The answers",
        "docs         well",
        'shop         {"a": 1}',
        "             after a person",
        "Done in 3.2 s; everything that was started is gone again.",
    ]


def test_the_summary_for_programs() -> None:
    file = io.StringIO()
    screen = JsonScreen(make_console(file))
    screen._traces.update(j1=[], j2=[{"kind": "finished"}])
    screen.summary(ANSWERED, 3.21)
    first, second, end = [json.loads(line) for line in file.getvalue().splitlines()]
    assert (first["answer"], second["how"]) == ("well", "after a person")
    assert second["trace"] == [{"kind": "finished"}]
    assert end == {"ok": True, "answers": 2, "seconds": 3.2}
