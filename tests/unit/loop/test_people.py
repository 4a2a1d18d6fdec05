"""Pauses and what a person's decision makes of them. Rules 5, 6 and 12."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import (
    Answer,
    Approve,
    DidNotHappen,
    Extend,
    Finish,
    Happened,
    PauseKind,
    Reject,
    Retry,
    Signal,
)
from tests.unit.loop.bench import Bench
from tests.unit.loop.driver import Driver, Script, drive
from worker.effects import Failed, Finished, Paused
from worker.models import ModelError
from worker.models.scripted import act
from worker.tools import tool


def paused(bench: Bench, script: list[Any], **how: Any) -> tuple[Driver, Paused]:
    driver, end = drive(bench.agent(**how), script)
    assert isinstance(end, Paused), end
    return driver, end


def decide(driver: Driver, signal: Signal) -> Any:
    assert driver.pause is not None
    assert signal.kind in driver.pause.accepts
    driver.signal = signal
    return driver.go()


# --- questions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "read"),
    [("Ja, 好", "Ja, 好"), ({"ok": True, "wie": "好"}, '{"ok": true, "wie": "好"}'), (0, "0")],
)
def test_an_answer_is_what_the_model_reads(bench: Bench, value: Any, read: str) -> None:
    driver, end = paused(bench, [act("", ("hand_to_human", {"reason": "ok?"}, "c1")), "done"])
    assert (end.pause.kind, end.pause.question) == (PauseKind.HAND_TO_HUMAN, "ok?")
    assert end.pause.action is not None
    assert end.pause.action.call_id == "c1"
    assert isinstance(decide(driver, Answer(value=value)), Finished)
    assert read in driver.observation("c1")


def test_a_person_may_finish_the_job(bench: Bench) -> None:
    calls = [("hand_to_human", {"reason": "1"}, "c1"), ("hand_to_human", {"reason": "2"}, "c2")]
    driver, _ = paused(bench, [act("", *calls), "never"])
    end = decide(driver, Finish(answer={"from": "anna"}))
    assert isinstance(end, Finished)
    assert end.value == {"from": "anna"}
    assert len(driver.requests) == 1
    assert "not run" in driver.observation("c1")
    assert "not run" in driver.observation("c2")


def test_each_pause_has_its_own_id(bench: Bench) -> None:
    calls = [("hand_to_human", {"reason": "1"}), ("hand_to_human", {"reason": "2"})]
    driver, first = paused(bench, [act("", *calls), "done"])
    second = decide(driver, Answer(value="a"))
    assert isinstance(second, Paused)
    assert (first.pause.id, second.pause.id) == ("p1", "p2")
    assert second.pause.question == "2"


def test_a_tool_that_asks_is_not_run_again(bench: Bench) -> None:
    driver, end = paused(bench, [act("", ("consult", {"x": 3}, "c1"), ("put", {"x": 4})), "done"])
    assert (end.pause.question, end.pause.details) == ("what about 3?", {"data": {"x": 3}})
    assert bench.done == ["consult 3"]
    assert isinstance(decide(driver, Answer(value="fine")), Finished)
    assert bench.done == ["consult 3", "put 4"]
    assert "fine" in driver.observation("c1")


# --- approval ------------------------------------------------------------------------------

CHARGE = [act("", ("put", {"x": 1}), ("charge", {"x": 5}, "c1"), ("put", {"x": 2})), "done"]


def test_an_action_waits_for_its_approval_and_its_siblings_do_not(bench: Bench) -> None:
    driver, end = paused(bench, CHARGE)
    assert end.pause.kind is PauseKind.APPROVAL
    assert end.pause.action is not None
    assert (end.pause.action.tool, end.pause.action.arguments) == ("charge", {"x": 5})
    assert bench.done == ["put 1", "put 2"]
    assert isinstance(decide(driver, Approve()), Finished)
    assert bench.done == ["put 1", "put 2", "charge 5"]


def test_a_person_may_change_the_arguments(bench: Bench) -> None:
    driver, _ = paused(bench, CHARGE)
    assert isinstance(decide(driver, Approve(arguments={"x": 4})), Finished)
    assert bench.done[-1] == "charge 4"
    assert driver.observation("c1").endswith("charge 4")


@pytest.mark.parametrize("arguments", [{}, {"x": "much"}, {"x": 1, "y": 2}])
def test_changed_arguments_that_do_not_fit_are_asked_for_again(
    bench: Bench, arguments: dict[str, Any]
) -> None:
    """E5: refused with the reason, still paused and answerable, nothing run."""
    driver, _ = paused(bench, CHARGE)
    again = decide(driver, Approve(arguments=arguments))
    assert isinstance(again, Paused)
    assert (again.pause.id, again.pause.kind) == ("p2", PauseKind.APPROVAL)
    assert "wrong arguments for charge" in str(again.pause.details["problem"])
    assert again.pause.action is not None
    assert again.pause.action.arguments == {"x": 5}
    assert "charge 5" not in bench.done
    assert isinstance(decide(driver, Approve()), Finished)
    assert bench.done[-1] == "charge 5"


def test_a_rejected_action_is_not_run_and_the_model_reads_why(bench: Bench) -> None:
    driver, _ = paused(bench, CHARGE)
    assert isinstance(decide(driver, Reject(reason="zu teuer")), Finished)
    assert bench.done == ["put 1", "put 2"]
    assert "zu teuer" in driver.observation("c1")


def test_an_approval_holds_for_one_call(bench: Bench) -> None:
    script = [act("", ("charge", {"x": 5})), act("", ("charge", {"x": 5})), "done"]
    driver, _ = paused(bench, script)
    second = decide(driver, Approve())
    assert isinstance(second, Paused)
    assert second.pause.kind is PauseKind.APPROVAL
    assert isinstance(decide(driver, Approve()), Finished)


def test_a_rule_decides_which_calls_need_approval(bench: Bench) -> None:
    @tool(approval=lambda arguments: arguments["x"] > 10)
    def order(x: int) -> str:
        """Buy."""
        return bench.note(f"order {x}")

    script = [act("", ("order", {"x": 10}), ("order", {"x": 11})), "done"]
    driver, end = drive(bench.agent(tools=[order]), script)
    assert isinstance(end, Paused)
    assert bench.done == ["order 10"]
    assert isinstance(decide(driver, Approve()), Finished)
    assert bench.done == ["order 10", "order 11"]


# --- calls in doubt ------------------------------------------------------------------------

PAY = [act("", ("pay", {"x": 5}, "c1"), ("put", {"x": 1})), "done"]


def in_doubt(bench: Bench, script: list[Any] | None = None, **how: Any) -> Driver:
    """A job whose process died when its ``once`` call had been run, and nobody knows."""
    driver = Driver(bench.agent(**how), Script(script or PAY))
    driver.crash = lambda _: bool(bench.done)
    assert driver.slice() is None
    driver.crash = lambda _: False
    assert bench.done == ["pay 5"]
    return driver


def test_rule_5_a_once_call_in_doubt_is_a_question_for_a_person(bench: Bench) -> None:
    driver = in_doubt(bench)
    end = driver.go()
    assert isinstance(end, Paused)
    assert end.pause.kind is PauseKind.UNKNOWN_OUTCOME
    assert end.pause.action is not None
    assert (end.pause.action.tool, end.pause.action.arguments) == ("pay", {"x": 5})
    assert end.pause.details["idempotency_key"] == "job:c1"
    assert driver.paid.keys["c1"] == {"job:c1"}
    assert bench.done == ["pay 5"]


def test_rule_5_it_happened(bench: Bench) -> None:
    driver = in_doubt(bench)
    driver.go()
    assert isinstance(decide(driver, Happened(result="receipt 7")), Finished)
    assert bench.done == ["pay 5", "put 1"]
    assert "receipt 7" in driver.observation("c1")
    assert driver.state().started is None


def test_rule_5_it_did_not_happen(bench: Bench) -> None:
    driver = in_doubt(bench)
    bench.done.clear()
    driver.go()
    assert isinstance(decide(driver, DidNotHappen()), Finished)
    assert bench.done == ["pay 5", "put 1"]
    assert driver.observation("c1") == "pay 5"
    assert len(driver.paid.keys["c1"]) == 1


def test_rule_5_and_when_it_dies_again_the_person_is_asked_again(bench: Bench) -> None:
    driver = in_doubt(bench)
    driver.go()
    driver.signal = DidNotHappen()
    driver.crash = lambda _: len(bench.done) > 1
    assert driver.slice() is None
    driver.crash = lambda _: False
    end = driver.go()
    assert isinstance(end, Paused)
    assert (end.pause.kind, end.pause.id) == (PauseKind.UNKNOWN_OUTCOME, "p2")


@pytest.mark.parametrize("change", ["tool gone", "arguments changed", "effects changed"])
@pytest.mark.parametrize("parallel", [False, True])
def test_rule_5_new_code_does_not_settle_a_doubt(bench: Bench, change: str, parallel: bool) -> None:
    """E8: the tool of a call in doubt was removed, or takes other arguments, or is safe now."""
    driver = in_doubt(bench)

    @tool(name="pay", effects="once")
    def other(amount: int) -> str:
        """Write, never twice."""
        return bench.note(f"other {amount}")

    @tool(name="pay", effects="safe")
    def harmless(x: int) -> str:
        """Read."""
        return bench.note(f"harmless {x}")

    tools: dict[str, list[Any]] = {
        "tool gone": [bench.put],
        "arguments changed": [other, bench.put],
        "effects changed": [harmless, bench.put],
    }
    driver.agent = bench.agent(tools=tools[change], parallel_safe=parallel)
    end = driver.go()
    assert isinstance(end, Paused)
    assert end.pause.kind is PauseKind.UNKNOWN_OUTCOME
    assert isinstance(decide(driver, Happened(result="receipt 7")), Finished)
    assert bench.done == ["pay 5", "put 1"]


def test_rule_5_the_question_shows_the_arguments_that_a_person_had_changed(bench: Bench) -> None:
    driver, _ = paused(bench, [act("", ("charge", {"x": 5}, "c1")), "done"])
    driver.signal = Approve(arguments={"x": 4})
    driver.crash = lambda _: bool(bench.done)
    assert driver.slice() is None
    driver.crash = lambda _: False
    end = driver.go()
    assert isinstance(end, Paused)
    assert end.pause.action is not None
    assert end.pause.action.arguments == {"x": 4}


def test_rule_5_an_idempotent_call_runs_again_with_its_key(bench: Bench) -> None:
    driver = Driver(bench.agent(), Script([act("", ("put", {"x": 1}, "c1")), "done"]))
    driver.crash = lambda _: bench.done == ["put 1"]
    assert driver.slice() is None
    driver.crash = lambda _: False
    assert isinstance(driver.go(), Finished)
    assert bench.done == ["put 1", "put 1"]
    assert driver.paid.keys["c1"] == {"job:c1"}
    assert driver.paid.attempts["c1"] == [1, 2]


# --- repetition, model errors, new code ------------------------------------------------------


def test_a_repeated_action_may_be_run_once_more(bench: Bench) -> None:
    same = act("", ("look", {"x": 7}))
    driver, end = paused(bench, [same, same, same, "done"], max_repeats=2)
    assert end.pause.kind is PauseKind.REPEATED_ACTION
    assert end.pause.details == {"times": 2}
    assert bench.done == ["look 7"]
    end = decide(driver, Retry())
    assert isinstance(end, Paused)
    assert bench.done == ["look 7"] * 2
    assert isinstance(decide(driver, Answer(value="stop looking")), Finished)
    assert bench.done == ["look 7"] * 2
    assert "stop looking" in driver.observations[-1]


def test_a_model_error_for_a_person_is_told_in_the_providers_words(bench: Bench) -> None:
    error = ModelError("no credit", "pause", status=429, code="insufficient_quota")
    driver, end = paused(bench, [act("", ("put", {"x": 1})), error, "done"])
    assert end.pause.kind is PauseKind.MODEL_ERROR
    assert "no credit" in end.pause.question
    wanted = {"code": "insufficient_quota", "status": 429, "attempts": 1}
    assert end.pause.details == wanted
    assert isinstance(decide(driver, Retry()), Finished)


def test_after_a_retry_the_attempts_are_counted_from_the_start(bench: Bench) -> None:
    errors = [ModelError("busy", "retry") for _ in range(4)]
    driver, end = paused(bench, [*errors, "done"], max_model_attempts=2)
    assert "after 2 attempts" in end.pause.question
    assert isinstance(decide(driver, Retry()), Paused)
    assert [wait.attempt for wait in driver.waits] == [1, 1]
    assert isinstance(decide(driver, Retry()), Finished)


def test_a_model_error_that_nothing_can_help_fails_the_job(bench: Bench) -> None:
    _, end = drive(bench.agent(), [ModelError("no such line", "fail", code="unscripted")])
    assert isinstance(end, Failed)
    assert (end.reason, end.text) == ("unscripted", "no such line")


def test_rule_6_a_job_goes_on_with_new_code_and_its_trace_says_so(bench: Bench) -> None:
    script = [act("", ("hand_to_human", {"reason": "?"})), act("", ("put", {"x": 1})), "done"]
    driver, _ = paused(bench, script, version="1")
    driver.agent = bench.agent(version="2")
    assert isinstance(decide(driver, Answer(value="x")), Finished)
    assert ("version", {"before": "1", "now": "2"}) in driver.events
    assert driver.state().version == "2"
    assert driver.kinds().count("version") == 1


def test_rule_6_or_asks_first(bench: Bench) -> None:
    script = [act("", ("hand_to_human", {"reason": "?"})), act("", ("put", {"x": 1})), "done"]
    driver, _ = paused(bench, script, version="1")
    driver.agent = bench.agent(version="2", on_version_change="pause")
    end = decide(driver, Answer(value="x"))
    assert isinstance(end, Paused)
    assert end.pause.kind is PauseKind.VERSION_CHANGE
    assert end.pause.details == {"before": "1", "now": "2"}
    assert bench.done == []
    assert isinstance(decide(driver, Retry()), Finished)
    assert bench.done == ["put 1"]


def test_rule_6_a_tool_that_is_gone_becomes_an_error_for_the_model(bench: Bench) -> None:
    """E8: approved while its code was there, and gone when it was to run."""
    driver, _ = paused(bench, CHARGE)
    driver.agent = bench.agent(tools=[bench.put])
    assert isinstance(decide(driver, Approve()), Finished)
    assert "no tool called charge" in driver.observation("c1")


def test_rule_6_a_parameter_that_is_new_becomes_an_error_for_the_model(bench: Bench) -> None:
    driver, _ = paused(bench, CHARGE)

    @tool(name="charge")
    def other(x: int, currency: str) -> str:
        """Take money."""
        return bench.note("never")

    driver.agent = bench.agent(tools=[other, bench.put])
    assert isinstance(decide(driver, Approve()), Finished)
    assert "currency: required, but missing" in driver.observation("c1")
    assert "never" not in bench.done


def test_rule_12_the_decision_stays_until_its_effect_is_committed(bench: Bench) -> None:
    """Whoever dies between the decision and its effect leaves it for the next one."""
    for instant in range(2):
        driver, _ = paused(bench, [act("", ("hand_to_human", {"reason": "?"}, "c1")), "done"])
        driver.signal = Answer(value="yes", by="anna")
        driver.crash = (driver.instant + instant).__eq__
        assert driver.slice() is None
        assert (driver.signal is None) == (instant == 1)
        driver.crash = lambda _: False
        assert isinstance(driver.go(), Finished)
        assert "yes" in driver.observation("c1")


@pytest.mark.parametrize("amount", [1, 2.5])
def test_extending_a_budget(bench: Bench, amount: float) -> None:
    script = [act("", ("look", {"x": n})) for n in range(9)]
    driver, end = paused(bench, script, max_steps=2)
    assert end.pause.kind is PauseKind.BUDGET
    assert end.pause.details == {"budget": "steps", "spent": 2, "limit": 2}
    again = decide(driver, Extend(amount=amount))
    assert isinstance(again, Paused)
    assert again.pause.details["limit"] == 2 + amount
    assert driver.state().steps == 2 + int(amount)


def test_rule_5_only_the_call_that_died_counts_its_attempts(bench: Bench) -> None:
    calls = [("put", {"x": 1}, "c1"), ("put", {"x": 2}, "c2")]
    driver = Driver(bench.agent(), Script([act("", *calls), act("", ("put", {"x": 3}, "c3")), "x"]))
    for deaths in (1, 2):
        driver.crash = lambda _, runs=deaths: len(bench.done) == runs  # type: ignore[misc]
        assert driver.slice() is None
    driver.crash = lambda _: False
    assert isinstance(driver.go(), Finished)
    assert driver.paid.attempts == {"c1": [1, 2, 3], "c2": [1], "c3": [1]}


def test_a_reply_starts_the_count_of_model_errors_anew(bench: Bench) -> None:
    busy = ModelError("busy", "retry")
    script = [busy, act("", ("put", {"x": 1})), busy, act("", ("put", {"x": 2})), busy, "done"]
    driver, end = drive(bench.agent(max_model_attempts=2), script)
    assert isinstance(end, Finished)
    assert [wait.attempt for wait in driver.waits] == [1, 1, 1]
