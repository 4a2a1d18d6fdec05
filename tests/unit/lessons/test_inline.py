"""Running a job in this process: what a test of an agent needs of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from api_client.contract import Answer, JobSpec, JobStatus, Retry
from api_client.errors import JobFailed, SignalRefused
from worker.agent import Agent
from worker.context import ActionContext
from worker.inline import MAX_PAUSES, run_inline
from worker.models import FunctionModel, ModelError, ScriptedModel, act, say
from worker.tools import hand_to_human, tool


@tool
def shout(word: str) -> str:
    """Says it louder."""
    return word.upper()


class Tenant(ActionContext):
    """Whose job it is."""

    def __init__(self, spec: JobSpec) -> None:
        self.text = f"{spec.tenant}/{spec.metadata['shelf']}"


def tenant_of(spec: JobSpec) -> Tenant:
    """Made for each slice."""
    return Tenant(spec)


@tool
def where(tenant: Tenant) -> str:
    """Where things are."""
    return tenant.text


AGENT = Agent(name="echo", goal="Echo.", tools=[shout, hand_to_human])
ASK = act("I ask.", ("hand_to_human", {"reason": "Which one?"}))


@pytest.mark.parametrize(
    "model",
    ["done", ["done"], lambda _: "done", FunctionModel(lambda _: "done")],
    ids=["answer", "script", "function", "model"],
)
def test_a_model_is_whatever_is_convenient(model: Any) -> None:
    run = run_inline(AGENT, "Go.", model=model)
    assert (run.answer, run.view.status) == ("done", JobStatus.SUCCEEDED)


def test_the_agents_own_model_is_the_default() -> None:
    agent = Agent(name="own", goal="", model=ScriptedModel(["mine"]))
    assert run_inline(agent, "Go.").answer == "mine"


def test_without_any_model_the_environment_is_asked() -> None:
    run = run_inline(AGENT, "Go.")
    assert run.pause is not None
    assert "LLM_" in run.pause.question


def test_everything_that_happened_is_there() -> None:
    run = run_inline(AGENT, {"word": "hi"}, model=[act("", ("shout", {"word": "hi"})), "HI it is"])

    assert [m["role"] for m in run.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert run.observations == ["HI"]
    assert [e.kind for e in run.events] == [
        "submitted",
        "claimed",
        "reply",
        "observation",
        "finished",
    ]
    assert run.view.steps == 2


def test_a_pause_without_an_answer_is_left_open() -> None:
    run = run_inline(AGENT, "Go.", model=[ASK])

    assert run.outcome is None
    assert run.pause is not None
    assert run.pause.question == "Which one?"
    with pytest.raises(JobFailed, match=r"paused: Which one\?"):
        _ = run.answer


def test_a_pause_is_answered_by_the_function() -> None:
    asked: list[str] = []

    def answer(pause: Any) -> dict[str, Any]:
        asked.append(pause.question)
        return {"kind": "answer", "value": "the red one", "by": "Ada"}

    run = run_inline(AGENT, "Go.", model=[ASK, "Red."], answers=answer)

    assert (run.answer, asked) == ("Red.", ["Which one?"])
    assert run.observations == ["Answer of a person: the red one"]
    assert run.view.answered is not None
    assert run.view.answered.by == "Ada"


def test_an_answer_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(SignalRefused, match="answer, finish"):
        run_inline(AGENT, "Go.", model=[ASK], answers=lambda _: Retry())


def test_a_job_that_asks_for_ever_ends_the_run() -> None:
    def always_ask(messages: Sequence[Any]) -> Any:
        return act("", ("hand_to_human", {"reason": "?"}, f"c{len(messages)}"))

    agent = Agent(name="asks", goal="", tools=[hand_to_human], max_steps=None)
    with pytest.raises(RuntimeError, match=f"paused {MAX_PAUSES + 1} times"):
        run_inline(agent, "Go.", model=always_ask, answers=lambda _: Answer(value="hm"))


def test_the_wait_after_a_model_error_is_skipped() -> None:
    busy = ModelError("busy", "retry", retry_after=60)
    begin = time.monotonic()

    run = run_inline(AGENT, "Go.", model=[busy, busy, say("done")])

    assert run.answer == "done"
    assert time.monotonic() - begin < 30
    assert [e.kind for e in run.events if e.kind in ("retry", "finished")] == [
        "retry",
        "retry",
        "finished",
    ]
    waited_ms = run.events[-1].at - run.events[0].at
    assert waited_ms >= 120_000


def test_a_failure_has_its_reason() -> None:
    run = run_inline(AGENT, "Go.", model=[ModelError("no", "fail", code="refused_here")])

    with pytest.raises(JobFailed, match="no") as caught:
        _ = run.answer
    assert caught.value.reason == "refused_here"


def test_a_job_that_makes_no_progress_is_given_up() -> None:
    def broken(spec: JobSpec) -> ActionContext:
        raise OSError("the database is down")

    agent = Agent(name="broken", goal="", context=broken)
    run = run_inline(agent, "Go.", model="never asked")

    assert run.view.status is JobStatus.FAILED
    assert run.messages == []


def test_the_context_may_go_by_the_job() -> None:
    agent = Agent(name="where", goal="", tools=[where], context=tenant_of)
    model = [act("", ("where", {})), "there"]
    run = run_inline(agent, "Go.", model=model, tenant="acme", metadata={"shelf": 3})

    assert run.observations == ["acme/3"]


def test_two_runs_have_nothing_in_common() -> None:
    first, second = (run_inline(AGENT, "Go.", model="done") for _ in range(2))
    assert first.view.job_id != second.view.job_id
    assert run_inline(AGENT, "Go.", model="done", job_id="mine").view.job_id == "mine"


def test_a_run_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    run_inline(Agent(name="still", goal=""), "Go.", model="done")
    assert set(threading.enumerate()) == before
