"""Reading a suite: what is wrong in a file is told by file, field and value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api_client.errors import InvalidInput
from worker.evaluation import load_suite
from worker.evaluation.suite import Bounds, shipped_suites

TASK = {"name": "t", "agent": "worker.examples:shop_agent", "input": "hi"}


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def error_of(folder: Path, **task: Any) -> str:
    suite = {"name": "s", "task": [{**TASK, **task}]}
    with pytest.raises(InvalidInput) as caught:
        load_suite(written(folder, "s.json", json.dumps(suite)))
    return str(caught.value)


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    toml = """
    name = "s"
    [[task]]
    name = "t"
    agent = "worker.examples:shop_agent"
    input = "hi"
    script = ["hello", {say = "I look.", calls = ["look", {tool = "find", arguments = {n = 1}}]}]
    [task.expect]
    answer = "hello"
    actions = ["look", {tool = "find", including = {n = 1}}]
    forbidden = "pay"
    steps = 2
    tokens = {at_most = 100}
    pauses = ["approval"]
    """
    from_toml = load_suite(written(tmp_path, "s.toml", toml))
    text = from_toml.model_dump_json(by_alias=True, exclude_unset=True, exclude={"folder"})
    assert load_suite(written(tmp_path, "s.json", text)) == from_toml
    task = from_toml.tasks[0]
    assert task.script is not None
    assert [line.say for line in task.script] == ["hello", "I look."]
    assert task.expect.actions is not None
    assert [action.tool for action in task.expect.actions] == ["look", "find"]
    assert (task.expect.steps, task.expect.forbidden) == (Bounds(exactly=2), ("pay",))
    assert from_toml.folder == tmp_path


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"expect": {"stepps": 3}}, "task.0.expect.stepps: Extra inputs are not permitted"),
        ({"expect": {"steps": {}}}, "give exactly, at_least or at_most"),
        ({"expect": {"steps": "three"}}, "task.0.expect.steps"),
        ({"expect": {"pauses": ["lunch"]}}, "task.0.expect.pauses.0"),
        ({"expect": {"answer": {"matches": "("}}}, "no regular expression"),
        ({"expect": {"outcome": "cancelled"}}, "task.0.expect.outcome"),
        ({"agent": "shop"}, "task.0.agent: give an import path"),
        ({"answers": [{"kind": "answr"}]}, "task.0.answers: number 0: "),
        ({"answers": [{"kind": "answer", "value": ""}]}, "the answer is empty"),
        ({"script": [{}]}, "give say, calls or both"),
        ({"script": ["a"], "model": "a:b"}, "model and script exclude each other"),
        ({"input": None, "name": ""}, "task.0.name: String should have at least 1 character"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, task: dict[str, Any], told: str) -> None:
    text = error_of(tmp_path, **task)
    assert told in text
    assert str(tmp_path / "s.json") in text


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("s.toml", "name = ", "Invalid value"),
        ("s.json", "{", "Expecting"),
        ("s.json", "[]", "it must hold an object"),
        ("s.json", '{"name": "s", "task": []}', "task: "),
    ],
)
def test_a_file_that_is_no_suite(tmp_path: Path, name: str, text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_suite(written(tmp_path, name, text))
    assert told in str(caught.value)


def test_tasks_have_names_of_their_own(tmp_path: Path) -> None:
    text = json.dumps({"name": "s", "task": [TASK, TASK]})
    with pytest.raises(InvalidInput, match="two tasks are called t"):
        load_suite(written(tmp_path, "s.json", text))


def test_a_file_that_is_not_there_and_what_is(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be read: .*; give a file, or one of examples"):
        load_suite(tmp_path / "nothing.toml")


def test_the_shipped_suites_are_found_by_name() -> None:
    assert list(shipped_suites()) == ["examples"]
    assert load_suite("examples").name == "examples"
