"""What JSON cannot carry is refused before anything is stored."""

from __future__ import annotations

import math
from typing import Any

import pytest

from api_client.contract import Answer
from api_client.deciding import parse_signal
from api_client.errors import InvalidInput, StepkeeperError
from api_client.specs import delay_ms, make_spec
from worker import Agent, run_inline
from worker.models import FunctionModel


def nested(depth: int) -> Any:
    """Lists in lists."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


UNFAITHFUL = [
    pytest.param(math.nan, id="NaN"),
    pytest.param({"a": [math.inf]}, id="infinite"),
    pytest.param("\ud800", id="half a surrogate pair"),
    pytest.param({"\udfff": 1}, id="in a key"),
    *(pytest.param(nested(depth), id=f"{depth} levels") for depth in (101, 200, 300, 900, 5000)),
]


@pytest.mark.parametrize("value", UNFAITHFUL)
def test_an_input_that_would_not_come_back_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        make_spec(job_id="j", agent="shop", input=value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("value", UNFAITHFUL)
def test_so_is_metadata(value: Any) -> None:
    with pytest.raises(InvalidInput):
        make_spec(job_id="j", agent="shop", input="x", metadata={"a": value})


@pytest.mark.parametrize("value", UNFAITHFUL)
def test_so_is_the_input_of_a_run_in_this_process(value: Any) -> None:
    agent = Agent(name="shop", goal="Help.", model=FunctionModel(lambda _messages: "hello"))
    with pytest.raises(InvalidInput) as refused:
        run_inline(agent, value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("value", UNFAITHFUL)
def test_so_is_a_decision(value: Any) -> None:
    with pytest.raises(StepkeeperError) as refused:
        parse_signal({"kind": "answer", "value": value})
    assert len(str(refused.value)) < 400


def test_so_is_a_decision_that_came_as_a_value() -> None:
    with pytest.raises(InvalidInput, match="NaN"):
        parse_signal(Answer(value=math.nan))


@pytest.mark.parametrize("value", ["\0 💥", 10**400, -0.0, 1.7e308, nested(100), {"": [{}]}, False])
def test_odd_values_that_json_carries_are_taken(value: Any) -> None:
    spec = make_spec(job_id="j", agent="shop", input=value)
    assert spec.model_validate_json(spec.model_dump_json()).input == value


@pytest.mark.parametrize("delay", [math.nan, math.inf, 1e30])
def test_a_delay_without_an_end_is_refused(delay: float) -> None:
    with pytest.raises(InvalidInput, match="ten years"):
        delay_ms(delay)


@pytest.mark.parametrize(("delay", "ms"), [(0, 0), (-math.inf, 0), (1.5, 1500)])
def test_a_delay_is_counted_in_milliseconds(delay: float, ms: int) -> None:
    assert delay_ms(delay) == ms
