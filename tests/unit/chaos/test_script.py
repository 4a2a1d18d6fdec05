"""The language of chaos jobs, and the agent that speaks it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from api_client.contract import Answer, Pause, PauseKind
from worker.chaos import agents
from worker.chaos.ledger import Ledger
from worker.chaos.options import Options
from worker.chaos.plan import PlannedJob, make_plan
from worker.chaos.script import Call, Script, human_token, place_of_question, read_tokens
from worker.inline import run_inline

KINDS = ["look", "put", "pay", "many", "ask", "long", "cancel", "fail", "busy", "break", "stay"]


def test_an_input_reads_back_as_it_was_written() -> None:
    script = Script(17, ("put+ask", "pay"))
    assert script.text == "job 17: put+ask pay"
    assert Script.read(script.text) == script


def test_another_text_is_no_script() -> None:
    with pytest.raises(ValueError, match="not the input of a chaos job: 'hello'"):
        Script.read("hello")


def test_every_call_has_a_place_of_its_own() -> None:
    script = Script(3, ("put+look", "busy"))
    assert script.calls(1) == [Call("put", "3.1.0"), Call("look", "3.1.1")]
    assert script.calls(2) == [Call("look", "3.2.0")]
    ids = [entry["id"] for step in (1, 2) for entry in script.message(step)["tool_calls"]]
    assert ids == ["call_1_0", "call_1_1", "call_2_0"]


def test_effects_are_those_of_the_steps_that_ran() -> None:
    script = Script(3, ("put+ask", "fail", "pay", "break"))
    assert script.effects() == [Call("put", "3.1.0"), Call("pay", "3.3.0")]
    assert script.effects(until=2) == [Call("put", "3.1.0")]


def test_the_answer_names_who_answered() -> None:
    script = Script(3, ("ask", "pay", "ask"))
    assert script.answer(["ben", "anna"]) == "<ask 3.1.0 ben> <pay 3.2.0> <ask 3.3.0 anna>"


def test_tokens_are_found_in_any_wording_and_in_their_order() -> None:
    messages = [
        {"role": "user", "content": "<look 9.9.9>"},
        {"role": "tool", "content": "Error: <fail 1.1.0>\nGo another way."},
        {"role": "tool", "content": "A person: <pay 1.2.0>"},
    ]
    assert read_tokens(messages) == "<fail 1.1.0> <pay 1.2.0>"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The ledger of an agent that takes no time."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite3")
    monkeypatch.setenv(agents.LEDGER, str(ledger.path))
    monkeypatch.setattr(agents, "_take_time", lambda _what, _most: None)
    return ledger


def _job(kind: str) -> PlannedJob:
    return next(job for job in make_plan(Options(jobs=20)).jobs if job.kind == kind)


def _anna(job: PlannedJob) -> Callable[[Pause], Answer | None]:
    def answer(pause: Pause) -> Answer | None:
        assert pause.kind is PauseKind.HAND_TO_HUMAN
        value = human_token(place_of_question(pause.question), "anna")
        return Answer(value=value) if job.answered else None

    return answer


@pytest.mark.parametrize("kind", KINDS)
def test_undisturbed_each_kind_of_job_comes_to_the_end_that_is_expected(
    kind: str, ledger: Ledger
) -> None:
    job = _job(kind)
    run = run_inline(agents.agent, job.script.text, answers=_anna(job))
    until = None
    if kind == "break":
        assert run.outcome is not None
        assert run.outcome.reason == "chaos_break"
    elif kind == "stay":
        assert run.pause is not None
        until = run.view.steps
    else:
        assert run.answer == job.script.answer(["anna"] * 9)
    found = ledger.entries()
    expected = [(call.tool, call.place) for call in job.script.effects(until)]
    assert sorted(found.attempts.elements()) == sorted(expected)
    assert sorted(found.applied) == sorted(pair for pair in expected if pair[0] != "look")


def test_a_busy_model_refuses_once_and_bills_once(ledger: Ledger) -> None:
    run = run_inline(agents.agent, "job 5: busy")
    assert [event.kind for event in run.events if event.kind in ("retry", "reply")] == [
        "retry",
        "reply",
    ]
    assert [call.place for call in ledger.entries().calls] == ["5.1", "5.2"]
