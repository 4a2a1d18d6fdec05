"""How jobs come to their answer. Rules 7, 8, 10 and 11."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from tests.unit.loop.bench import Bench
from tests.unit.loop.driver import Driver, Script, drive
from worker.effects import CallModel, Failed, Finished
from worker.job import Job
from worker.loop import advance, input_text
from worker.messages import InvalidHistory, Transcript
from worker.models.scripted import act, say
from worker.tools import ActionContext, tool


class Report(BaseModel):
    """What was found."""

    total: int
    notes: list[str] = []


@dataclass
class Tenant(ActionContext):
    """Whose data the tools may touch."""

    name: str = "ours"


def test_the_goal_and_the_task_begin_every_job(bench: Bench) -> None:
    driver, end = drive(bench.agent(goal="Hilf."), ["42"], input="Was ist 6 mal 7?")
    assert isinstance(end, Finished)
    assert end.value == "42"
    assert driver.requests[0] == [
        {"role": "system", "content": "Hilf."},
        {"role": "user", "content": "Was ist 6 mal 7?"},
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("任务", "任务"),
        ({"frage": "好"}, '{\n "frage": "好"\n}'),
        ([1], "[\n 1\n]"),
        (False, "false"),
    ],
)
def test_an_input_of_any_json_form_is_read_as_text(value: Any, text: str) -> None:
    assert input_text(value) == text


def test_a_text_ends_a_job_without_an_output_type(bench: Bench) -> None:
    _, end = drive(bench.agent(), ["  42 \n"])
    assert isinstance(end, Finished)
    assert end.value == "  42 \n"


def test_a_text_may_end_a_job_whose_output_is_text(bench: Bench) -> None:
    assert drive(bench.agent(output=str), ["42"])[1].__class__ is Finished
    _, end = drive(bench.agent(output=str), [act("", ("terminate", {"result": "43"}))])
    assert isinstance(end, Finished)
    assert end.value == "43"


def test_rule_11_a_text_does_not_end_a_job_with_a_typed_answer(bench: Bench) -> None:
    script = [say("42"), act("", ("terminate", {"total": 42, "notes": ["好"]}))]
    driver, end = drive(bench.agent(output=Report), script)
    assert isinstance(end, Finished)
    assert end.value == {"total": 42, "notes": ["好"]}
    assert "call terminate" in driver.messages[3]["content"]


def test_rule_11_defaults_of_the_answers_type_are_filled_in(bench: Bench) -> None:
    _, end = drive(bench.agent(output=Report), [act("", ("terminate", {"total": 1}))])
    assert isinstance(end, Finished)
    assert end.value == {"total": 1, "notes": []}


def test_rule_11_a_tool_is_terminal_for_one_agent_and_not_for_another(bench: Bench) -> None:
    script = [act("", ("put", {"x": 1}), ("pay", {"x": 2})), "done"]
    _, end = drive(bench.agent(terminal=["put"]), script)
    assert isinstance(end, Finished)
    assert (end.value, bench.done) == ("put 1", ["put 1"])
    _, end = drive(bench.agent(), script)
    assert isinstance(end, Finished)
    assert (end.value, bench.done) == ("done", ["put 1", "put 1", "pay 2"])


def test_rule_11_a_terminal_tool_that_fails_does_not_end_the_job(bench: Bench) -> None:
    agent = bench.agent(terminal=["fail"], max_steps=1, on_limit="stop")
    driver, end = drive(agent, [act("", ("fail", {"x": 1}))])
    assert "no 1 here" in driver.observations[0]
    assert isinstance(end, Failed)
    assert end.reason == "max_steps"


def test_rule_11_a_terminal_tools_whole_result_is_the_answer(bench: Bench) -> None:
    """The model reads a cut text, the caller gets everything."""
    agent = bench.agent(terminal=["long"], max_observation=100)
    driver, end = drive(agent, [act("", ("long", {"x": 50}))])
    assert isinstance(end, Finished)
    assert end.value == "0123456789" * 50
    assert len(driver.observations[0]) < 200


@pytest.mark.parametrize(
    ("name", "words"),
    [("fail", ["no 3 here", "go another way"]), ("crash", ["KeyError", "3"])],
)
def test_rule_7_what_a_tool_raises_is_an_observation(
    bench: Bench, name: str, words: list[str]
) -> None:
    driver, end = drive(bench.agent(), [act("", (name, {"x": 3}, "c1"), ("put", {"x": 1})), "done"])
    assert isinstance(end, Finished)
    assert bench.done == ["put 1"]
    for word in words:
        assert word in driver.observation("c1")
    assert driver.events[1][1]["error"] is True


def test_rule_7_a_long_observation_is_cut_and_says_so(bench: Bench) -> None:
    driver, _ = drive(bench.agent(), [act("", ("long", {"x": 1000})), "done"])
    text = driver.observations[0]
    assert len(text) < 3200
    assert "10000 characters in total" in text
    assert driver.events[1][1]["full"] == 10_000


def test_rule_7_wrong_arguments_are_told_by_name(bench: Bench) -> None:
    driver, end = drive(bench.agent(), [act("", ("put", {"y": 1}, "c1")), "done"])
    assert isinstance(end, Finished)
    assert bench.done == []
    assert "x: required, but missing" in driver.observation("c1")
    assert "y: there is no such argument" in driver.observation("c1")


def test_rule_8_the_model_is_not_asked_while_a_call_is_open(bench: Bench) -> None:
    transcript = Transcript(
        [
            {"role": "system", "content": "g"},
            {"role": "user", "content": "t"},
            act("", ("a", {}, "c")),
        ]
    )
    with pytest.raises(InvalidHistory, match="unanswered: c"):
        transcript.request()


def test_rule_8_whatever_the_history_ends_in_its_calls_come_first(bench: Bench) -> None:
    """A list that ends in open calls is answered before the model is asked."""
    driver = Driver(bench.agent(), Script([act(""), "done"]))
    driver.messages = [
        {"role": "system", "content": "g"},
        {"role": "user", "content": "t"},
        act("", ("put", {"x": 1}, "c1"), ("put", {"x": 2}, "c2")),
        {"role": "tool", "tool_call_id": "c2", "content": "put 2"},
    ]
    driver.run = '{"s":1}'
    assert isinstance(driver.go(), Finished)
    assert bench.done == ["put 1"]
    shown = [m.get("tool_call_id") for m in driver.requests[0][3:]]
    assert shown == ["c1", "c2"]


def test_rule_10_a_value_for_a_hidden_parameter_is_ignored_and_traced(bench: Bench) -> None:
    seen: list[Any] = []

    @tool(effects="safe")
    def whose(x: int, ctx: Tenant) -> str:
        """Whose data is this?"""
        seen.append(ctx)
        return "ok"

    agent = bench.agent(tools=[whose], context=Tenant())
    driver = Driver(
        agent, Script([act("", ("whose", {"x": 1, "ctx": {"name": "theirs"}})), "done"])
    )
    driver.context = Tenant()
    assert isinstance(driver.go(), Finished)
    assert [context.name for context in seen] == ["ours"]
    assert driver.events[1][1]["ignored"] == ["ctx"]
    schema = str(driver.sent[0].tools)
    assert "ctx" not in schema
    assert "ours" not in str((driver.messages, driver.run, driver.events))


def test_what_an_agent_says_of_tool_choice_is_sent(bench: Bench) -> None:
    agent = bench.agent(tool_choice="required", parallel_tool_calls=False)
    driver, _ = drive(agent, ["42"])
    assert (driver.sent[0].tool_choice, driver.sent[0].parallel_tool_calls) == ("required", False)
    assert [t["function"]["name"] for t in driver.sent[0].tools] == list(agent.toolbox.names)


def test_the_loop_does_nothing_by_itself(bench: Bench) -> None:
    """Rule of the house: it yields what it wants, and the first thing is a model call."""
    driver = Driver(bench.agent(), Script(["x"]))
    steps = advance(driver.agent, Job(driver.spec()))
    assert isinstance(next(steps), CallModel)
    steps.close()
