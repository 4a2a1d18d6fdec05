"""A suite: what a TOML or JSON file says of tasks and of what is expected of them."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from api_client.contract import SIGNAL, PauseKind
from api_client.errors import InvalidInput
from api_client.records import one_line


class Part(BaseModel):
    """Base of everything in a suite: a field that is not known is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_bounds(value: Any) -> Any:
    return {"exactly": value} if isinstance(value, int) else value


def _as_action(value: Any) -> Any:
    return {"tool": value} if isinstance(value, str) else value


def _as_answer(value: Any) -> Any:
    return {"equals": value} if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_list)]


class Bounds(Part):
    """How many: a number alone means exactly so many."""

    exactly: int | None = None
    at_least: int | None = None
    at_most: int | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if (self.exactly, self.at_least, self.at_most) == (None, None, None):
            raise ValueError("give exactly, at_least or at_most")
        return self


Count = Annotated[Bounds, BeforeValidator(_as_bounds)]


class ExpectedAction(Part):
    """One call of a tool; a name alone means with any arguments.

    Attributes:
        arguments: all of them.
        including: some of them.
    """

    tool: str
    arguments: dict[str, JsonValue] | None = None
    including: dict[str, JsonValue] = Field(default_factory=dict)


Action = Annotated[ExpectedAction, BeforeValidator(_as_action)]


class ExpectedAnswer(Part):
    """What the final answer must be; a text alone means that very text.

    Attributes:
        equals: the whole answer.
        contains: texts that stand in it; an answer that is no text is looked at as JSON.
        matches: a regular expression that is found in it.
        at: values by their places in a JSON answer, such as ``items.0.name``.
        json_schema: that it must follow (needs the ``jsonschema`` package).
    """

    equals: JsonValue = None
    contains: Texts = ()
    matches: str | None = None
    at: dict[str, JsonValue] = Field(default_factory=dict)
    json_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")

    @field_validator("matches")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        return value


Answer = Annotated[ExpectedAnswer, BeforeValidator(_as_answer)]


class ExpectedObservation(Part):
    """A text that stands in what the model read of its calls.

    Attributes:
        action: of the call with this number, from 1; of any call, if not given.
        tool: of a call of this tool.
    """

    contains: str
    action: int | None = Field(default=None, ge=1)
    tool: str | None = None


class Expect(Part):
    """What is expected of a task: how it ends, its answer, and its way.

    Attributes:
        outcome: ``paused`` means left in a pause that the task has no answer for.
        reason: why it failed, in the word for programs.
        actions: all of them, in their order.
        actions_include: these in this order, with any others before, between and behind.
        forbidden: tools that must not be called.
        pauses: the kinds of all of them, in their order.
        descriptions: what the model is told of tools, by their names.
        fingerprint: of the names, descriptions and parameters of all tools.
    """

    outcome: Literal["succeeded", "failed", "paused"] = "succeeded"
    reason: str | None = None
    answer: Answer | None = None
    actions: tuple[Action, ...] | None = None
    actions_include: tuple[Action, ...] = ()
    forbidden: Texts = ()
    observations: tuple[ExpectedObservation, ...] = ()
    steps: Count | None = None
    tokens: Count | None = None
    pauses: tuple[PauseKind, ...] | None = None
    descriptions: dict[str, str] = Field(default_factory=dict)
    fingerprint: str | None = None


class Line(Part):
    """One reply of a scripted model: a text alone is an answer.

    Attributes:
        say: the text, which is the plan if there are calls.
        calls: tools with their arguments.
    """

    say: str = ""
    calls: tuple[Action, ...] = ()

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.say and not self.calls:
            raise ValueError("give say, calls or both")
        return self


def _as_line(value: Any) -> Any:
    return {"say": value} if isinstance(value, str) else value


class Task(Part):
    """One job, and what is expected of it.

    Attributes:
        agent: its import path, ``package.module:name``.
        change: fields of the agent that are different here; ``unset`` ones are ``None``.
        model: import path of a model, of a function that makes one or is one, or of a script.
        script: or the lines themselves. With neither, the agent's own model is asked.
        answers: signals, for the pauses in their order.
        env: variables while it runs; ``{scratch}`` is an empty folder, ``{suite}`` the suite's.
        expect_real: in place of ``expect`` when a real model is asked.
    """

    name: str = Field(min_length=1)
    agent: str
    change: dict[str, JsonValue] = Field(default_factory=dict)
    unset: Texts = ()
    input: JsonValue
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    model: str | None = None
    script: tuple[Annotated[Line, BeforeValidator(_as_line)], ...] | None = None
    answers: tuple[dict[str, JsonValue], ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    expect: Expect = Expect()
    expect_real: Expect | None = None

    @field_validator("agent", "model")
    @classmethod
    def _import_path(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[\w.]+:[\w.]+", value):
            raise ValueError("give an import path such as 'shop.agents:refunds'")
        return value

    @field_validator("answers")
    @classmethod
    def _signals(cls, value: tuple[dict[str, JsonValue], ...]) -> tuple[dict[str, JsonValue], ...]:
        for number, signal in enumerate(value):
            try:
                SIGNAL.validate_python(signal)
            except ValidationError as error:
                raise ValueError(f"number {number}: {one_line(error)}") from None
        return value

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        if self.model is not None and self.script is not None:
            raise ValueError("model and script exclude each other")
        return self


class Suite(Part):
    """Tasks with names of their own.

    Attributes:
        folder: of its file, for ``{suite}``.
    """

    name: str = Field(min_length=1)
    description: str = ""
    tasks: tuple[Task, ...] = Field(alias="task", min_length=1)
    folder: Path = Path()

    @field_validator("tasks")
    @classmethod
    def _names_differ(cls, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
        names = [task.name for task in tasks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two tasks are called {', '.join(twice)}")
        return tasks


def shipped_suites() -> dict[str, Path]:
    """The suites that come with the package, by name."""
    folder = Path(str(resources.files("worker.evaluation").joinpath("suites")))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_suite(where: str | Path) -> Suite:
    """The suite in a ``.toml`` or ``.json`` file, or the shipped one of this name.

    Raises:
        InvalidInput: there is none, or a field is wrong; names the file, the field and the value.
    """
    path = shipped_suites().get(str(where), Path(where))
    loaded = _read(path)
    try:
        return Suite.model_validate({**loaded, "folder": path.resolve().parent})
    except ValidationError as error:
        raise InvalidInput(f"suite {path}: {one_line(error)}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
        loaded = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        shipped = ", ".join(shipped_suites())
        raise InvalidInput(
            f"suite {path}: cannot be read: {error}; give a file, or one of {shipped}"
        ) from None
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"suite {path}: {error}") from None
    if not isinstance(loaded, dict):
        raise InvalidInput(f"suite {path}: it must hold an object with name and task")
    return loaded
