"""Rule 11: the tools by which a model ends its job or hands it on."""

import datetime as dt
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, RootModel
from typing_extensions import TypedDict

from worker.errors import ArgumentError, ToolRegistrationError
from worker.texts import TEXTS
from worker.tools import ToolBox, hand_to_human, hand_to_human_tool, terminate_tool


class Report(BaseModel):
    title: str
    day: dt.date
    pages: int = 1


@dataclass
class Point:
    x: int


class Entry(TypedDict):
    key: str


class Node(BaseModel):
    name: str
    children: list["Node"] = []


Rows = RootModel[list[int]]


def test_a_text_answer_is_one_field_and_unwrapped() -> None:
    built = terminate_tool()
    assert built.name == "terminate"
    assert built.role == "terminate"
    assert built.parameters["properties"] == {
        "result": {"description": "The final result.", "type": "string"}
    }
    assert built.parameters["required"] == ["result"]
    assert built.answer(built.parse('{"result": "420"}')) == "420"


@pytest.mark.parametrize(
    ("output", "sent", "answer"),
    [
        (Report, '{"title": "t", "day": "2026-01-02"}',
         {"title": "t", "day": "2026-01-02", "pages": 1}),
        (Point, '{"x": "3"}', {"x": 3}),
        (Entry, '{"key": "k"}', {"key": "k"}),
        (Node, '{"name": "a", "children": [{"name": "b"}]}',
         {"name": "a", "children": [{"name": "b", "children": []}]}),
        (int, '{"result": "5"}', 5),
        (list[Point], '{"result": [{"x": 1}]}', [{"x": 1}]),
        (Literal["yes", "no"], '{"result": "no"}', "no"),
        (int | None, '{"result": null}', None),
        (Rows, '{"result": [1]}', [1]),
        (Point | Report, '{"result": {"x": 1}}', {"x": 1}),
        (dict[str, Any], '{"result": {"a": [1]}}', {"a": [1]}),
    ],
)  # fmt: skip
def test_rule_11_every_type_can_be_an_answer(output: Any, sent: str, answer: Any) -> None:
    built = terminate_tool(output)
    assert built.parameters["type"] == "object"
    assert built.answer(built.parse(sent)) == answer


def test_rule_11_invalid_answers_go_back_to_the_model() -> None:
    built = terminate_tool(Report)
    with pytest.raises(ArgumentError, match="title: required"):
        built.parse('{"day": "2026-01-02"}')
    with pytest.raises(ArgumentError, match="day: "):
        built.parse('{"title": "t", "day": "tomorrow"}')
    with pytest.raises(ArgumentError, match="other: there is no such argument"):
        terminate_tool().parse('{"result": "x", "other": 1}')


def test_an_answer_is_a_copy() -> None:
    built = terminate_tool(list[int])
    arguments = built.parse('{"result": [1]}')
    built.answer(arguments).append(2)
    assert built.answer(arguments) == [1]


def test_only_a_terminal_tool_has_an_answer() -> None:
    with pytest.raises(TypeError, match="hand_to_human"):
        hand_to_human.answer(hand_to_human.parse('{"reason": "x"}'))


def test_an_output_without_schema_is_refused() -> None:
    with pytest.raises(ToolRegistrationError, match="range"):
        terminate_tool(range)


def test_the_description_names_the_type_in_the_agents_language() -> None:
    assert (
        terminate_tool(Report).description == "Provide the final result (Report) and end the task."
    )
    assert "Endergebnis (Report)" in terminate_tool(Report, texts=TEXTS["de"]).description


def test_hand_to_human_takes_a_reason() -> None:
    assert hand_to_human.role == "human"
    assert list(hand_to_human.parameters["properties"]) == ["reason"]
    assert hand_to_human.parse('{"reason": "20 €"}').values == {"reason": "20 €"}
    german = hand_to_human_tool(texts=TEXTS["de"])
    assert german.description == "Übergibt das Gespräch an einen Kollegen, mit dem Grund."


def test_built_in_tools_stand_in_a_box_like_others() -> None:
    box = ToolBox([terminate_tool(Point), hand_to_human])
    assert box.schemas(strict=True)[1]["function"]["strict"] is True
    with pytest.raises(ToolRegistrationError, match="terminate"):
        box.add(terminate_tool(Report))
