"""Odd replies, from the reply to the next request: each call answered, nothing run in vain.

Rows A1 to A23 of the cases from the field, as far as the loop decides them. Every request is
checked as the strictest provider would (``driver.check_history``): rows B1 and B4.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from api_client.contract import Answer, PauseKind
from tests.unit.loop.bench import Bench
from tests.unit.loop.driver import Once, drive
from worker.effects import Backoff, Failed, Finished, Paused
from worker.models import ModelError, ModelReply
from worker.models.base import Usage
from worker.models.scripted import act, say
from worker.tools import tool


class Report(BaseModel):
    total: int


def raw(*entries: dict[str, Any], content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(entries)}


def entry(name: str, arguments: Any, call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("arguments", ["", "  ", None, "missing"])
def test_a1_no_arguments_are_an_empty_object(bench: Bench, arguments: Any) -> None:
    call = entry("ping", arguments)
    if arguments == "missing":
        del call["function"]["arguments"]
    driver, end = drive(bench.agent(), [raw(call), "done"])
    assert isinstance(end, Finished)
    assert bench.done == ["pong"]
    assert driver.messages[2]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("arguments", ['["Oslo"]', '"Oslo"', "7", "true", "null"])
def test_a2_arguments_that_are_no_object(bench: Bench, arguments: str) -> None:
    driver, end = drive(bench.agent(), [raw(entry("put", arguments)), "done"])
    assert isinstance(end, Finished)
    assert bench.done == []
    assert "must be a JSON object" in driver.observation("c1")


@pytest.mark.parametrize(
    "arguments",
    ['{"x": 1', '{"x":1}}', '{"x":1}{"x":2}', "{'x': 1}", '{"x": "a\nb"}', '{"x": NaN}'],
)
def test_a3_malformed_arguments_are_told_and_siblings_run(bench: Bench, arguments: str) -> None:
    reply = raw(entry("put", arguments, "c1"), entry("put", '{"x": 2}', "c2"))
    driver, end = drive(bench.agent(), [reply, "done"])
    assert isinstance(end, Finished)
    assert bench.done == ["put 2"]
    assert driver.observation("c1").startswith("Error: ")
    assert "JSON" in driver.observation("c1")


def test_a3_only_so_many_malformed_replies_in_a_row(bench: Bench) -> None:
    bad = raw(entry("put", '{"x": '))
    _, end = drive(bench.agent(max_bad_turns=3), [bad, bad, bad])
    assert isinstance(end, Failed)
    assert end.reason == "bad_replies"
    assert "3 unusable replies in a row" in end.text
    assert "JSON" in end.text


def test_a3_a_usable_reply_starts_the_count_anew(bench: Bench) -> None:
    bad, good = raw(entry("put", '{"x": ')), act("", ("put", {"x": 1}))
    _, end = drive(bench.agent(max_bad_turns=3), [bad, bad, good, bad, bad, good, "done"])
    assert isinstance(end, Finished)


def test_a3_the_error_is_in_the_agents_language(bench: Bench) -> None:
    driver, _ = drive(bench.agent(language="de"), [raw(entry("put", '{"x": ')), "fertig"])
    assert driver.observation("c1").startswith("Fehler")


def test_a4_a_call_that_was_cut_off_is_not_run(bench: Bench) -> None:
    reply = raw(entry("put", '{"x": 1}', "c1"), entry("put", '{"x": 2, "y', "c2"))
    cut = ModelReply(reply, finish_reason="length")
    driver, end = drive(bench.agent(), [cut, "done"])
    assert isinstance(end, Finished)
    assert bench.done == ["put 1"]
    assert "cut off" in driver.observation("c2")


def test_a5_an_unknown_tool_beside_a_known_one(bench: Bench) -> None:
    driver, end = drive(
        bench.agent(), [act("", ("search_webz", {"q": 1}, "c1"), ("put", {"x": 1}, "c2")), "done"]
    )
    assert isinstance(end, Finished)
    assert bench.done == ["put 1"]
    assert "search_webz" in driver.observation("c1")
    assert "look, put, pay" in driver.observation("c1")


def test_a5_a_name_without_end_does_not_fill_the_run_state(bench: Bench) -> None:
    driver, _ = drive(bench.agent(), [act("", ("x" * 100_000, {})), "done"])
    assert len(driver.observations[0]) < 1000
    assert max(len(str(commit)) for commit in driver.commits) < 2000


def test_a5_only_so_many_unknown_tools_in_a_row(bench: Bench) -> None:
    _, end = drive(bench.agent(max_bad_turns=2), [act("", ("no", {})), act("", ("no", {}))])
    assert isinstance(end, Failed)
    assert end.reason == "bad_replies"


def test_a6_a_name_with_noise_around_it_means_the_tool(bench: Bench) -> None:
    driver, end = drive(bench.agent(), [raw(entry("functions.PUT<|x|>", '{"x": 1}')), "done"])
    assert isinstance(end, Finished)
    assert bench.done == ["put 1"]
    assert driver.events[0][1]["raw"]["names"] == {"c1": "functions.PUT<|x|>"}


def test_a7_two_calls_with_one_id_both_run(bench: Bench) -> None:
    reply = raw(entry("put", '{"x": 1}', "c1"), entry("put", '{"x": 2}', "c1"))
    driver, end = drive(bench.agent(), [reply, reply, "done"])
    assert isinstance(end, Finished)
    assert bench.done == ["put 1", "put 2"] * 2
    ids = [call["id"] for m in driver.messages for call in m.get("tool_calls", ())]
    assert len(set(ids)) == 4


@pytest.mark.parametrize("call_id", [None, "", "missing"])
def test_a8_an_id_that_is_missing_is_made_once(bench: Bench, call_id: Any) -> None:
    call = entry("put", '{"x": 1}', call_id)
    if call_id == "missing":
        del call["id"]
    driver, end = drive(bench.agent(), [raw(call), "done"], crash=lambda n: n == 4)
    assert isinstance(end, Finished)
    [(made, times)] = driver.paid.runs.items()
    assert made
    assert driver.observation(made) == "put 1"
    assert times in (1, 2)


def test_a9_one_tool_several_times_in_one_reply(bench: Bench) -> None:
    calls = [("look", {"x": n}, f"c{n}") for n in (3, 1, 2)]
    driver, end = drive(bench.agent(), [act("", *calls), "done"])
    assert isinstance(end, Finished)
    assert bench.done == ["look 3", "look 1", "look 2"]
    answers = [(m["tool_call_id"], m["content"]) for m in driver.messages if m["role"] == "tool"]
    assert answers == [("c3", "look 3"), ("c1", "look 1"), ("c2", "look 2")]


EMPTY = ModelReply({"role": "assistant", "content": None}, Usage(5, 0))


def test_a10_an_empty_reply_is_tried_again(bench: Bench) -> None:
    driver, end = drive(bench.agent(), [Once(EMPTY), "done"])
    assert isinstance(end, Finished)
    assert [wait.attempt for wait in driver.waits] == [1]
    assert driver.state().usage.prompt_tokens >= 5, "what was paid is counted"


def test_a10_empty_replies_end_the_job_after_the_stated_attempts(bench: Bench) -> None:
    driver, end = drive(bench.agent(max_model_attempts=3), [Once(EMPTY)] * 3 + ["never"])
    assert isinstance(end, Failed)
    assert end.reason == "empty_response"
    assert "empty reply" in end.text
    assert [wait.attempt for wait in driver.waits] == [1, 2]


def test_a12_a_refusal_ends_the_job_once(bench: Bench) -> None:
    driver, end = drive(bench.agent(output=Report), [say("", refusal="I can't help with that")])
    assert isinstance(end, Failed)
    assert (end.reason, end.text) == ("refused", "the model refused: I can't help with that")
    assert driver.kinds() == ["failed"]


def test_a13_fields_nobody_knows_go_back_to_the_model(bench: Bench) -> None:
    reply = act("", ("put", {"x": 1}), reasoning_content="嗯", extra={"a": [1]})
    driver, _ = drive(bench.agent(), [reply, "done"], crash=lambda n: n in (4, 9))
    sent = driver.requests[-1][2]
    assert (sent["reasoning_content"], sent["extra"]) == ("嗯", {"a": [1]})


def test_a14_a_call_written_as_text_is_neither_run_nor_an_answer(bench: Bench) -> None:
    text = '<tool_call>{"name":"put","arguments":{"x":1}}</tool_call>'
    driver, end = drive(bench.agent(), [say(text), "done"])
    assert isinstance(end, Finished)
    assert end.value == "done"
    assert bench.done == []
    assert driver.messages[3]["role"] == "user"
    assert "written as text" in driver.messages[3]["content"]


def test_a14_only_so_many_of_them(bench: Bench) -> None:
    text = '<tool_call>{"name":"put","arguments":{"x":1}}</tool_call>'
    _, end = drive(bench.agent(max_bad_turns=2), [say(text), say(text)])
    assert isinstance(end, Failed)
    assert end.reason == "bad_replies"


def test_a15_text_beside_a_call_is_the_plan_and_no_answer(bench: Bench) -> None:
    driver, end = drive(bench.agent(), [act("Done.", ("put", {"x": 1})), "42"])
    assert isinstance(end, Finished)
    assert end.value == "42"
    assert bench.done == ["put 1"]
    assert driver.messages[2]["content"] == "Done."


def test_a16_what_a_tool_reads_is_stored_and_sent_again(bench: Bench) -> None:
    @tool(effects="safe")
    def odd() -> str:
        """Read a log with odd characters."""
        bench.note("odd")
        return "a\x00b\ud800c"

    driver, end = drive(
        bench.agent(tools=[odd]), [act("", ("odd", {})), "done"], crash=lambda n: n == 8
    )
    assert isinstance(end, Finished)
    assert bench.done == ["odd"]
    driver.observations[0].encode()
    assert driver.observations[0].startswith("a")


@pytest.mark.parametrize("usage", [None, Usage(10, 0, estimated=True)])
def test_a17_without_a_count_it_is_estimated_and_limits_bind(bench: Bench, usage: Any) -> None:
    step = ModelReply(act("word " * 50, ("put", {"x": 1})), usage)
    agent = bench.agent(max_tokens=150, max_repeats=None)
    driver, end = drive(agent, [step] * 20)
    assert isinstance(end, Paused)
    assert end.pause.details["budget"] == "tokens"
    assert driver.state().usage.estimated
    assert driver.state().usage.total <= 150 + 150
    assert driver.events[0][1]["est"] == 1


@pytest.mark.parametrize("reason", ["end_turn", "tool_use", None, "stop", "zzz"])
def test_a18_calls_decide_and_not_the_finish_reason(bench: Bench, reason: str | None) -> None:
    call = ModelReply(act("", ("put", {"x": 1})), finish_reason=reason)
    _, end = drive(bench.agent(), [call, ModelReply(say("42"), finish_reason=reason)])
    assert isinstance(end, Finished)
    assert (end.value, bench.done) == ("42", ["put 1"])


def test_a19_polling_something_that_moves_is_no_repetition(bench: Bench) -> None:
    states = iter(["queued", "40%", "80%", "done"])

    @tool(effects="safe")
    def status(job: int) -> str:
        """How far a job is."""
        return next(states)

    poll = act("", ("status", {"job": 7}))
    _, end = drive(bench.agent(tools=[status], max_repeats=3), [poll] * 4 + ["done"])
    assert isinstance(end, Finished)


def test_a19_the_same_action_without_news_stops_at_the_threshold(bench: Bench) -> None:
    same = act("", ("look", {"x": 7}))
    _, end = drive(bench.agent(max_repeats=3, on_limit="stop"), [same] * 10)
    assert isinstance(end, Failed)
    assert end.reason == "repeated_action"
    assert 'the same action 3 times, with the same result: look({"x": 7})' in end.text
    assert bench.done == ["look 7", "look 7"]


def test_a19_arguments_in_another_order_are_the_same_action(bench: Bench) -> None:
    @tool(effects="safe")
    def both(a: int, b: int) -> str:
        """Take two."""
        return bench.note("both")

    script = [raw(entry("both", '{"a": 1, "b": 2}')), raw(entry("both", '{"b":2,"a":1}'))]
    _, end = drive(bench.agent(tools=[both], max_repeats=2), [*script, "never"])
    assert isinstance(end, Paused)
    assert end.pause.kind is PauseKind.REPEATED_ACTION
    assert bench.done == ["both"]


def test_a20_a_spent_step_limit_is_no_success(bench: Bench) -> None:
    script = [act("", ("look", {"x": n})) for n in range(9)]
    driver, end = drive(bench.agent(max_steps=3, on_limit="stop"), script)
    assert isinstance(end, Failed)
    assert (end.reason, end.text) == ("max_steps", "stopped: 3 of 3 steps without an answer")
    assert bench.done == ["look 0", "look 1", "look 2"]
    assert len(driver.observations) == 3
    assert driver.state().usage.total > 0


def test_a21_invalid_answers_go_back_to_the_model(bench: Bench) -> None:
    script = [
        act("", ("terminate", {}, "c1")),
        act("", ("terminate", {"total": "many"}, "c2")),
        act("", ("terminate", {"total": 42}, "c3")),
    ]
    driver, end = drive(bench.agent(output=Report), script)
    assert isinstance(end, Finished)
    assert end.value == {"total": 42}
    assert "total: required, but missing" in driver.observation("c1")
    assert "many" in driver.observation("c2")


def test_a21_always_invalid_ends_with_the_last_error(bench: Bench) -> None:
    script = [act("", ("terminate", {"total": f"many{n}"})) for n in range(9)]
    _, end = drive(bench.agent(output=Report, max_bad_turns=3), script)
    assert isinstance(end, Failed)
    assert end.reason == "bad_replies"
    assert "many2" in end.text


def test_a22_nothing_runs_behind_the_end(bench: Bench) -> None:
    calls = [("put", {"x": 5}, "c1"), ("terminate", {"total": 1}, "c2"), ("pay", {"x": 1}, "c3")]
    driver, end = drive(bench.agent(output=Report), [act("", *calls)])
    assert isinstance(end, Finished)
    assert end.value == {"total": 1}
    assert bench.done == ["put 5"]
    assert "not run" in driver.observation("c3")


def test_a22_the_first_valid_terminate_wins(bench: Bench) -> None:
    calls = [
        ("terminate", {"total": "x"}, "c1"),
        ("terminate", {"total": 1}, "c2"),
        ("terminate", {"total": 2}, "c3"),
    ]
    driver, end = drive(bench.agent(output=Report), [act("", *calls)])
    assert isinstance(end, Finished)
    assert end.value == {"total": 1}
    assert "not run" in driver.observation("c3")


def test_a23_siblings_of_a_question_run_before_the_pause(bench: Bench) -> None:
    calls = [
        ("put", {"x": 5}, "c1"),
        ("hand_to_human", {"reason": "ok?"}, "c2"),
        ("look", {"x": 1}, "c3"),
    ]
    driver, end = drive(bench.agent(), [act("", *calls), "done"])
    assert isinstance(end, Paused)
    assert end.pause.question == "ok?"
    assert bench.done == ["put 5", "look 1"]
    assert [m["tool_call_id"] for m in driver.messages if m["role"] == "tool"] == ["c1", "c3"]
    before = len(driver.messages)
    driver.signal = Answer(value="yes")
    end = driver.go()
    assert isinstance(end, Finished)
    assert bench.done == ["put 5", "look 1"]
    assert [m["role"] for m in driver.messages[before:]] == ["tool", "assistant"]
    shown = [m["tool_call_id"] for m in driver.requests[-1] if m["role"] == "tool"]
    assert shown == ["c1", "c2", "c3"]


def test_a23_terminate_waits_until_the_person_has_answered(bench: Bench) -> None:
    calls = [("terminate", {"total": 1}, "c1"), ("hand_to_human", {"reason": "ok?"}, "c2")]
    script = [act("", *calls), act("", ("terminate", {"total": 2}))]
    driver, end = drive(bench.agent(output=Report), script, lambda _: Answer(value="no, 2"))
    assert isinstance(end, Finished)
    assert end.value == {"total": 2}
    assert "not accepted yet" in driver.observation("c1")
    assert "no, 2" in driver.observation("c2")


def test_b4_notes_of_ours_are_never_a_system_message(bench: Bench) -> None:
    script = [
        say('<tool_call>{"name":"put","arguments":{"x":1}}</tool_call>'),
        ModelReply(say("cut"), finish_reason="length"),
        act("word " * 30, ("look", {"x": 1})),
        ModelError("too long", "compact"),
        act("word " * 30, ("look", {"x": 2})),
        "done",
    ]
    driver, end = drive(bench.agent(), script)
    assert isinstance(end, Finished)
    roles = [message["role"] for request in driver.requests for message in request]
    assert roles.count("system") == len(driver.requests)
    assert roles.count("developer") == 0


def test_a_model_error_never_leaves_a_message(bench: Bench) -> None:
    errors = [ModelError("busy", "retry"), ModelError("busy", "retry", retry_after=9.0)]
    driver, end = drive(bench.agent(), [*errors, "done"])
    assert isinstance(end, Finished)
    assert [m["role"] for m in driver.messages] == ["system", "user", "assistant"]
    first, second = driver.waits
    assert isinstance(first, Backoff)
    assert 0.5 <= first.seconds <= 1.0
    assert second.seconds == 9.0
