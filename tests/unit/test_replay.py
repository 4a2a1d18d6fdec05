"""The state before a step, out of transcript and trace."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import Answer
from api_client.errors import InvalidInput
from api_client.sizes import size_of
from tests.support.recorded import Recorded, record
from worker.inline import InlineRun
from worker.messages import Transcript
from worker.models import FunctionModel, ModelError, OpenAIModel
from worker.models.base import ModelRequest
from worker.models.renamed import renamed
from worker.models.scripted import act, say
from worker.replay import beginning
from worker.state import RunState

LOOK = act("I look.", ("status", {"order": "1187"}), ("lines", {"count": 3}))
ASK = act("May I?", ("hand_to_human", {"reason": "Pay?"}))
SHIP = act("I ship.", ("ship", {"order": "1187"}))


@pytest.fixture(scope="module")
def run() -> InlineRun:
    """Four steps: two tools, a person, a tool, the answer."""
    made: Recorded = record(
        [LOOK, ASK, SHIP, say("Done.")], answers=lambda _: Answer(value="yes", by="anna")
    )
    return made.run


def begun(run: InlineRun, step: int, **changed: Any) -> tuple[list[Any], RunState]:
    """Messages and state before a step."""
    found = beginning(run.view, run.messages, run.events, step, **changed)
    return list(found.messages), RunState.load(found.run)


def test_before_the_first_step_there_are_goal_and_task(run: InlineRun) -> None:
    messages, state = begun(run, 1, version="v9")
    assert messages == run.messages[:2]
    assert state == RunState(version="v9", stored=sum(map(size_of, messages)))


@pytest.mark.parametrize(("step", "kept"), [(2, 5), (3, 7), (4, 9)])
def test_a_beginning_is_a_valid_transcript_with_what_was_spent(
    run: InlineRun, step: int, kept: int
) -> None:
    messages, state = begun(run, step)
    assert messages == run.messages[:kept]
    assert Transcript(messages).pending == []
    assert state.steps == step - 1
    assert state.usage.prompt_tokens == 400 * (step - 1)
    assert state.usage.completion_tokens == 30 * (step - 1)


def test_executions_are_counted_by_tool(run: InlineRun) -> None:
    assert begun(run, 2)[1].calls == {"status": 1, "lines": 1}
    assert begun(run, 4)[1].calls.get("ship") == 1


def test_it_says_where_it_comes_from(run: InlineRun) -> None:
    found = beginning(run.view, run.messages, run.events, 3)
    assert found.record == {"rerun_of": "job-1", "from_step": 3}


def test_goal_and_task_may_be_others(run: InlineRun) -> None:
    messages, _ = begun(run, 2, goal="Be brief.", input={"order": 7})
    assert messages[0] == {"role": "system", "content": "Be brief."}
    assert messages[1]["content"] == '{\n "order": 7\n}'
    assert messages[2:] == run.messages[2:5]
    assert run.messages[0]["content"] == "Help."


@pytest.mark.parametrize("step", [0, 5, 99])
def test_a_step_that_was_not_made_is_refused(run: InlineRun, step: int) -> None:
    with pytest.raises(InvalidInput, match=f"has made 4 steps, none of them is step {step}"):
        begun(run, step)


def test_a_call_that_was_refused_is_no_execution() -> None:
    made = record([act("x", ("status", {"wrong": 1})), say("Done.")]).run
    assert begun(made, 2)[1].calls == {}


def test_a_model_is_renamed_where_its_api_has_others() -> None:
    model = OpenAIModel("small", base_url="http://127.0.0.1:1/v1", api_key="k")
    other = renamed(model, "large")
    assert (model.name, other.name) == ("small", "large")
    assert isinstance(other, OpenAIModel)


def test_a_model_without_others_fails_and_says_so() -> None:
    other = renamed(FunctionModel(lambda _: "hello"), "large")
    with pytest.raises(ModelError, match="'function' has no other") as failed:
        other.reply(ModelRequest([]))
    assert failed.value.fate == "fail"
