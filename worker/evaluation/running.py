"""Running the tasks of a suite: inline, on a store in memory, one after another."""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from api_client.contract import Pause
from api_client.errors import InvalidInput, StepkeeperError, shorten
from worker.agent import Agent
from worker.evaluation.checks import Failure, failures
from worker.evaluation.report import Report, TaskRun
from worker.evaluation.seen import Seen, see
from worker.evaluation.suite import Line, Suite, Task
from worker.inline import ModelSource, run_inline
from worker.models.base import Model
from worker.models.scripted import act, say
from worker.undisturbed import scratch_folder


def evaluate(suite: Suite, *, real: bool = False, repeat: int = 1, only: str = "") -> Report:
    """Run the tasks of a suite.

    Args:
        real: ask the agents' own models, or that of the environment, instead of scripts.
        repeat: times for each task.
        only: run the tasks whose names hold this.

    Raises:
        InvalidInput: an import path or a change of an agent cannot be used; names the task.
    """
    tasks = [task for task in suite.tasks if only in task.name]
    if not tasks:
        names = ", ".join(task.name for task in suite.tasks)
        raise InvalidInput(
            f"no task of suite {suite.name} holds {shorten(only)}; there are {names}"
        )
    runs = [_run(suite, task, real) for task in tasks for _ in range(repeat)]
    return Report(suite.name, tuple(runs))


def _run(suite: Suite, task: Task, real: bool) -> TaskRun:
    began = time.monotonic()
    with scratch_folder("stepkeeper-eval-") as scratch:
        places = {"scratch": str(scratch), "suite": str(suite.folder)}
        with _environment({k: _filled(v, places) for k, v in task.env.items()}):
            seen, failed = _seen(task, real)
    return TaskRun(task.name, tuple(failed), round(time.monotonic() - began, 3), seen)


def _seen(task: Task, real: bool) -> tuple[Seen | None, list[Failure]]:
    agent = _agent(task)
    model = None if real else _model(task)
    waiting = iter(task.answers)

    def answer(_pause: Pause) -> Any:
        return next(waiting, None)

    try:
        run = run_inline(agent, task.input, model=model, answers=answer, metadata=task.metadata)
    except (StepkeeperError, RuntimeError) as error:
        return None, [Failure("run", f"it broke off: {error}")]
    seen = see(agent, run)
    expect = task.expect_real if real and task.expect_real is not None else task.expect
    failed = failures(expect, seen)
    left = sum(1 for _ in waiting)
    if left:
        failed.append(Failure("answers", f"{left} of {len(task.answers)} were not asked for"))
    return seen, failed


def _agent(task: Task) -> Agent:
    agent = _imported(task, "agent", task.agent)
    if not isinstance(agent, Agent):
        raise _wrong(task, "agent", f"{task.agent} is a {type(agent).__name__}, not an Agent")
    changes = {**task.change, **dict.fromkeys(task.unset)}
    try:
        return replace(agent, **changes)  # type: ignore[arg-type]
    except (StepkeeperError, TypeError, ValueError) as error:
        raise _wrong(task, "change", str(error)) from error


def _model(task: Task) -> ModelSource:
    if task.script is not None:
        return [_line(line) for line in task.script]
    if task.model is None:
        return None
    found = _imported(task, "model", task.model)
    if isinstance(found, Model) or not callable(found):
        return found  # type: ignore[no-any-return]
    return _made(found)


def _made(found: Any) -> ModelSource:
    """A function that takes nothing makes a model; any other is one."""
    return found() if not inspect.signature(found).parameters else found  # type: ignore[no-any-return]


def _line(line: Line) -> dict[str, Any]:
    if not line.calls:
        return say(line.say)
    return act(line.say, *((call.tool, call.arguments or {}) for call in line.calls))


def _imported(task: Task, field: str, path: str) -> Any:
    name, _, attribute = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise _wrong(task, field, f"cannot import {path}: {error}") from error
    return found


def _wrong(task: Task, field: str, text: str) -> InvalidInput:
    return InvalidInput(f"task {task.name!r}: {field}: {text}")


def _filled(text: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """The process's environment with these variables, and afterwards as it was."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
