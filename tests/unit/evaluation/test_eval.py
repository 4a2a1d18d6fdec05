"""``stepkeeper eval``: the shipped suite passes, and what changes under it is found and told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from worker.cli import main
from worker.evaluation import evaluate, load_suite
from worker.evaluation.suite import shipped_suites

EXAMPLES = shipped_suites()["examples"]

AGENTS = '''
"""Agents of a test."""

from dataclasses import replace

from worker.examples.calculator import calculator
from worker.examples.scripts import CALCULATOR_SCRIPT
from worker.models import FunctionModel, ScriptedModel
from worker.tools import hand_to_human

told_otherwise = replace(
    calculator,
    tools=[replace(tool, description="Adds 2 numbers.") if tool.name == "add" else tool
           for tool in calculator.toolbox if tool.role == "tool"],
)
silent = FunctionModel(lambda messages: "nothing")
lines = CALCULATOR_SCRIPT


def thinking(messages):
    return f"{len(messages)} messages"
'''


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wrapped."""
    monkeypatch.setenv("COLUMNS", "500")


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes the shipped suite with something in it replaced; returns its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "agents_of_a_test.py").write_text(AGENTS)

    def write(*changes: tuple[str, str]) -> str:
        text = EXAMPLES.read_text("utf-8").replace("{suite}/../../examples", str(PAGES))
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        path = tmp_path / "changed.toml"
        path.write_text(text, "utf-8")
        return str(path)

    return write


PAGES = EXAMPLES.parents[2] / "examples"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["eval", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def row(table: str, task: str) -> str:
    return next(line for line in table.splitlines() if task in line)


def test_the_examples_pass(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "examples")
    assert (code, err) == (0, "")
    assert "12 of 12 passed" in out
    assert "FAILED" not in out
    assert "what failed" not in out
    assert "repeated_action" in row(out, "shop: the same question twice")


def test_a_changed_description_is_found(capsys: pytest.CaptureFixture[str], changed: Any) -> None:
    old = 'name = "calculator: 420"\nagent = "worker.examples.calculator:calculator"'
    suite = changed((old, 'name = "calculator: 420"\nagent = "agents_of_a_test:told_otherwise"'))
    code, out, _ = run(capsys, suite)
    assert code == 1
    assert "11 of 12 passed" in out
    failed = row(out, "calculator: 420")
    assert "FAILED" in failed
    assert (
        'descriptions: expected add to be told as "Adds two numbers.", it is "Adds 2 numbers."'
        in failed
    )


def test_a_changed_action_is_found(capsys: pytest.CaptureFixture[str], changed: Any) -> None:
    suite = changed(("arguments = { a = 210, b = 2 }", "arguments = { a = 210, b = 3 }"))
    code, out, _ = run(capsys, suite)
    assert code == 1
    assert "11 of 12 passed" in out
    assert (
        "actions: expected multiply(a=210, b=3) as action 2, it is multiply(a=210, b=2); all: "
        "add(a=200, b=10), multiply(a=210, b=2), save_paper("
    ) in row(out, "calculator: 420")


def test_results_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    code, out, _ = run(capsys, "examples", "--json", str(path), "-k", "calculator", "--repeat", "2")
    assert code == 0
    assert "passed 2/2" in row(out, "calculator: 420")
    results = json.loads(path.read_text("utf-8"))
    assert (results["suite"], results["passed"], len(results["runs"])) == ("examples", True, 4)
    first = results["runs"][0]
    assert (first["task"], first["passed"], first["failures"]) == ("calculator: 420", True, [])
    assert first["seen"]["answer"] == {"value": 420}
    assert first["seen"]["actions"][0] == {
        "tool": "add",
        "arguments": {"a": 200, "b": 10},
        "observation": "210",
    }


def test_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "examples", "--json", "-", "-k", "money")
    assert (code, json.loads(out)["passed"]) == (0, True)


def test_a_real_model_is_asked_for_in_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "examples", "--real", "-k", "420")
    assert code == 1
    assert "expected succeeded, it is paused: The model call failed: LLM_MODEL is not set" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing.toml"], "suite nothing.toml: cannot be read"),
        (["examples", "-k", "no such task"], "no task of suite examples holds 'no such task'"),
        (["examples", "--json", "/nowhere/x.json", "-k", "420"], "--json /nowhere/x.json"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert told in err
    assert err.count("\n") == 1


def suite_of(folder: Path, **task: Any) -> str:
    given = {"name": "t", "agent": "worker.examples.calculator:calculator", "input": "hi", **task}
    path = folder / "s.json"
    path.write_text(json.dumps({"name": "s", "task": [given]}))
    return str(path)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"agent": "agents_of_a_test:nobody"}, "task 't': agent: cannot import"),
        ({"agent": "no_such_module:x"}, "task 't': agent: cannot import no_such_module:x"),
        ({"agent": "agents_of_a_test:lines"}, "is a list, not an Agent"),
        ({"model": "agents_of_a_test:nobody"}, "task 't': model: cannot import"),
        ({"change": {"max_stepps": 1}}, "task 't': change: "),
        ({"change": {"max_steps": 0}}, "max_steps=0 must be > 0"),
    ],
)
def test_a_path_or_a_change_that_cannot_be_used_is_told(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    changed: Any,
    task: dict[str, Any],
    told: str,
) -> None:
    code, _, err = run(capsys, suite_of(tmp_path, **task))
    assert code == 2
    assert told in err


@pytest.mark.parametrize("model", ["silent", "lines", "thinking"])
def test_models_are_named_by_their_paths(changed: Any, tmp_path: Path, model: str) -> None:
    path = suite_of(
        tmp_path,
        model=f"agents_of_a_test:{model}",
        env={"STEPKEEPER_PAPERS_DB": "sqlite:///{scratch}/p.sqlite3"},
    )
    (found,) = evaluate(load_suite(path)).runs
    assert found.seen is not None
    assert (found.seen.outcome == "succeeded") is (model == "lines")


def test_answers_that_nobody_asked_for_are_a_failure(tmp_path: Path) -> None:
    call = {"tool": "terminate", "arguments": {"value": 1}}
    path = suite_of(
        tmp_path,
        script=[{"calls": [call]}],
        answers=[{"kind": "answer", "value": "yes"}],
    )
    report = evaluate(load_suite(path))
    assert report.reasons() == ["t: answers: 1 of 1 were not asked for"]


def test_a_run_that_breaks_off_is_a_failure_and_not_the_end(tmp_path: Path) -> None:
    call = {"tool": "hand_to_human", "arguments": {"reason": "?"}}
    path = suite_of(
        tmp_path,
        agent="worker.examples.shop:shop",
        script=[{"calls": [call]}],
        answers=[{"kind": "approve"}],
    )
    (reason,) = evaluate(load_suite(path)).reasons()
    assert reason.startswith("t: run: it broke off: ")


def test_the_environment_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPKEEPER_PAPERS_DB", "before")
    monkeypatch.delenv("STEPKEEPER_SHOP_DB", raising=False)
    before = dict(os.environ)
    assert evaluate(load_suite("examples")).passed
    assert dict(os.environ) == before
