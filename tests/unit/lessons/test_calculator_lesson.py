"""The lesson's calculator: goal, actions, memory, environment; terminal tools, hidden context."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from worker.agent import Agent
from worker.errors import AgentDefinitionError, ToolRegistrationError
from worker.examples.book import Book
from worker.examples.calculator import Library, Result, add, calculator, multiply, save_paper
from worker.examples.scripts import CALCULATOR_SCRIPT
from worker.inline import InlineRun, run_inline
from worker.models import ScriptedModel, act, say
from worker.tools import ActionContext

TASK = "Add 200 and 10, then multiply the result by 2."
KEY = "a-key-nobody-may-see"
ADD = act(None, ("add", {"a": 200, "b": 10}, "call_a"))
MULTIPLY = act(None, ("multiply", {"a": 210, "b": 2}, "call_b"))
FINISH = act(None, ("terminate", {"value": 420}, "call_c"))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(f"sqlite:///{tmp_path}/papers.sqlite3", KEY)


def play(agent: Agent, script: Sequence[Any], task: str = TASK) -> InlineRun:
    model = ScriptedModel(script)
    run = run_inline(agent, task, model=model)
    model.assert_finished()
    return run


def described(agent: Agent, tool: str) -> dict[str, Any]:
    """What the model is told of one tool."""
    schemas = [schema["function"] for schema in agent.schemas]
    return next(schema for schema in schemas if schema["name"] == tool)


def test_200_plus_10_times_2_is_420(library: Library) -> None:
    run = play(replace(calculator, context=library), [ADD, MULTIPLY, FINISH])

    assert run.answer == {"value": 420}
    assert Result(**run.answer).value == 420.0
    calls = [m["tool_calls"][0] for m in run.messages if m["role"] == "assistant"]
    asked = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls]
    assert asked == [
        ("call_a", "add", '{"a": 200, "b": 10}'),
        ("call_b", "multiply", '{"a": 210, "b": 2}'),
        ("call_c", "terminate", '{"value": 420}'),
    ]
    results = [m for m in run.messages if m["role"] == "tool"]
    assert [(m["tool_call_id"], m["content"]) for m in results][:2] == [
        ("call_a", "210"),
        ("call_b", "420"),
    ]
    assert results[2]["tool_call_id"] == "call_c"


def test_the_schema_comes_from_the_function() -> None:
    schema = described(calculator, "add")
    assert (schema["name"], schema["description"]) == ("add", "Adds two numbers.")
    parameters = schema["parameters"]
    assert parameters["properties"] == {"a": {"type": "number"}, "b": {"type": "number"}}
    assert parameters["required"] == ["a", "b"]


def test_a_text_is_not_the_typed_answer(library: Library) -> None:
    run = play(replace(calculator, context=library), [ADD, MULTIPLY, say("420"), FINISH])

    assert run.answer == {"value": 420}
    assert run.messages[-3]["role"] == "user"
    assert "terminate" in run.messages[-3]["content"]


def test_wrong_answers_go_back_to_the_model(library: Library) -> None:
    missing = act(None, ("terminate", {}))
    wrong = act(None, ("terminate", {"value": "a lot"}))
    run = play(replace(calculator, context=library), [missing, wrong, FINISH])

    assert run.answer == {"value": 420}
    assert "value: required, but missing" in run.observations[0]
    assert '(got "a lot")' in run.observations[1]


def test_the_plain_answer_of_an_agent_without_a_type() -> None:
    """Without an output type and without a terminal tool, text is the answer."""
    agent = Agent(name="plain", goal="Calculate.", tools=[add, multiply])
    assert play(agent, [ADD, MULTIPLY, say("420")]).answer == "420"


def test_a_text_answer_through_terminate() -> None:
    agent = Agent(name="text", goal="Calculate.", tools=[add, multiply], output=str)
    finish = act(None, ("terminate", {"result": "420"}))
    assert play(agent, [ADD, MULTIPLY, finish]).answer == "420"


def test_add_ends_the_job_of_one_agent_and_not_of_the_other(library: Library) -> None:
    adder = Agent(name="adder", goal="Add the numbers.", tools=[add, multiply], terminal=[add])

    ended = play(adder, [ADD])
    assert (ended.answer, ended.view.steps) == (210, 1)

    went_on = play(replace(calculator, context=library), [ADD, MULTIPLY, FINISH])
    assert (went_on.answer, went_on.view.steps) == ({"value": 420}, 3)
    assert adder.toolbox.get("add") is calculator.toolbox.get("add") is not None


def test_an_output_conflicts_with_a_terminal_tool() -> None:
    with pytest.raises(AgentDefinitionError, match=r"output and terminal tools \['add'\] exclude"):
        Agent(name="both", goal="", tools=[add], terminal=[add], output=Result)


def test_two_terminal_tools_are_one_exit_too_many() -> None:
    with pytest.raises(AgentDefinitionError, match=r"\['add', 'multiply'\] are all terminal"):
        Agent(name="two", goal="", tools=[add, multiply], terminal=[add, multiply])


def test_a_missing_context_is_found_when_the_agent_is_made() -> None:
    with pytest.raises(ToolRegistrationError, match=r"'save_paper' needs a context of .*Library"):
        Agent(name="poor", goal="", tools=[save_paper])


def test_a_context_of_another_type_is_found_as_well() -> None:
    @dataclass
    class Other(ActionContext):
        database_url: str

    with pytest.raises(ToolRegistrationError, match=r"needs a context of .*Library, .* Other"):
        Agent(name="other", goal="", tools=[save_paper], context=Other("sqlite:///x"))


def test_a_context_that_is_more_than_asked_for_will_do(tmp_path: Path) -> None:
    class Bigger(Library):
        pass

    bigger = Bigger(f"sqlite:///{tmp_path}/papers.sqlite3", KEY)
    agent = Agent(name="rich", goal="", tools=[save_paper], context=bigger)
    save = act(None, ("save_paper", {"title": "t", "content": "c"}))
    assert play(agent, [save, say("done")]).observations == ["saved as paper 1"]


def test_the_hidden_context_reaches_the_tool_and_nobody_else(library: Library) -> None:
    agent = replace(calculator, context=library)
    run = play(agent, CALCULATOR_SCRIPT)

    assert run.answer == {"value": 420}
    (paper,) = Book(library.database_url).entries()
    assert paper.startswith("Twice the sum: 420 [")
    seen = json.dumps([run.messages, agent.schemas], default=str) + "".join(
        event.model_dump_json() for event in run.events
    )
    assert KEY not in seen
    assert "papers.sqlite3" not in seen
    properties = described(agent, "save_paper")["parameters"]["properties"]
    assert list(properties) == ["title", "content"]


def test_what_the_model_sends_for_the_context_is_ignored(library: Library) -> None:
    forged = {"title": "t", "content": "c", "library": {"api_key": "mine"}}
    script = [act(None, ("save_paper", forged)), FINISH]
    run = play(replace(calculator, context=library), script)

    assert run.observations[0] == "saved as paper 1"
    noted = [event.data.get("ignored") for event in run.events if event.kind == "observation"]
    assert noted == [["library"]]
