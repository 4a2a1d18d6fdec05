"""A tool: a Python function together with what a model and the service must know of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypedDict, get_args

from worker.context import ActionContext, CallInfo
from worker.errors import ToolRegistrationError
from worker.pauses import PausePolicy
from worker.redact import Redactor
from worker.texts import ENGLISH, Texts
from worker.tools.arguments import Arguments, OutputReader, Reader
from worker.tools.forms import Schema, inlined, strict_form
from worker.tools.invoke import Observation, Surroundings, invoke, overdue
from worker.tools.isolate import Place
from worker.tools.results import Cut

Effects = Literal["safe", "idempotent", "once"]
Approval = bool | Callable[[dict[str, Any]], bool]
Role = Literal["tool", "terminate", "human", "agent"]

NAME_PATTERN = "^[a-zA-Z0-9_-]{1,64}$"
MAX_OBSERVATION = 3000
DEFAULT_TIMEOUT = 300.0

_PATTERNS_ONLY = Redactor()


class ToolOptions(TypedDict, total=False):
    """What can be said of a tool where it is registered.

    Keys:
        name: by default the function's; letters, digits, ``_`` and ``-``, at most 64.
        description: by default the docstring without its parameters.
        effects: ``"safe"`` reads only; ``"idempotent"`` may run again with the same
            idempotency key; ``"once"`` is never run again when its outcome is in doubt.
        timeout: seconds after which the model is told that there was no result.
        max_calls: executions in one job, or None for any number.
        max_repeats: how often in a row the same action may be asked for with the same result; the
            agent's limit if None.
        max_observation: characters that the model reads of a result; None for the agent's limit.
        cut: which part of a longer result is kept.
        approval: whether a person must approve a call; a function is asked with the arguments.
        labels: who may approve a call, besides those with a label of the agent or the job.
        pause_policy: deadline and reminders of the approval, and of a question the tool asks.
        isolate: run each call in a process of its own, which is killed at the timeout.
        tags: for the application's own choices.
        parameters: JSON schema to use instead of the one made from the signature.
    """

    name: str
    description: str
    effects: Effects
    timeout: float
    max_calls: int | None
    max_repeats: int | None
    max_observation: int | None
    cut: Cut
    approval: Approval
    labels: Collection[str]
    pause_policy: PausePolicy | None
    isolate: bool
    tags: Collection[str]
    parameters: Mapping[str, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tool:
    """One tool, ready to be described to a model, checked and run.

    Made by ``tool`` and ``build_tool``. To change one, use ``dataclasses.replace``.

    Attributes:
        parameters: JSON schema of the arguments; hidden parameters are not in it.
        origin: ``"module:qualname"`` of the function, for error texts.
        role: ``"terminate"``, ``"human"`` and ``"agent"`` are answered by the loop, never run.
        delegate: the agent that answers, of a tool whose role is ``"agent"``.

    The other attributes are those of ``ToolOptions``, and what was read from the signature.
    """

    name: str
    description: str
    parameters: Schema = field(repr=False)
    function: Callable[..., Any] = field(repr=False)
    reader: Reader = field(repr=False)
    effects: Effects = "idempotent"
    timeout: float = DEFAULT_TIMEOUT
    max_calls: int | None = None
    max_repeats: int | None = None
    max_observation: int | None = None
    cut: Cut = "head"
    approval: Approval = False
    labels: tuple[str, ...] = ()
    pause_policy: PausePolicy | None = None
    tags: tuple[str, ...] = ()
    context_type: type[ActionContext] | None = None
    context_name: str | None = field(default=None, repr=False)
    context_optional: bool = field(default=False, repr=False)
    is_async: bool = field(default=False, repr=False)
    place: Place | None = field(default=None, repr=False)
    origin: str = ""
    role: Role = "tool"
    delegate: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME_PATTERN, self.name):
            raise ToolRegistrationError(
                f"tool {self.name!r} ({self.origin}): a tool's name must match {NAME_PATTERN}; "
                "give it another one with name=..."
            )
        for fits, what in _checks(self):
            if not fits:
                raise ToolRegistrationError(f"tool {self.name!r}: {what}")

    @property
    def isolate(self) -> bool:
        """Whether each call runs in a process of its own."""
        return self.place is not None

    @property
    def only_reads(self) -> bool:
        """Whether running it changes nothing: it may run before it is known that it should."""
        return self.effects == "safe" and self.role == "tool"

    def schema(self, strict: bool | None = None, *, inline: bool = False) -> Schema:
        """What is sent to a model.

        Args:
            strict: True asks for the strict form, which is given where the parameters allow it,
                and otherwise the plain one; False says explicitly that the form is not strict;
                None says nothing.
            inline: whether to write out what the schema refers to.
        """
        strict_parameters = self._strict if strict else None
        parameters = self.parameters if strict_parameters is None else strict_parameters
        function: Schema = {
            "name": self.name,
            "description": self.description,
            "parameters": inlined(parameters) if inline else deepcopy(parameters),
        }
        if strict is False or strict_parameters is not None:
            function["strict"] = bool(strict)
        return {"type": "function", "function": function}

    @cached_property
    def _strict(self) -> Schema | None:
        return strict_form(self.parameters)

    def parse(self, arguments: str | None, texts: Texts = ENGLISH) -> Arguments:
        """Check the arguments that a model sent.

        Args:
            arguments: JSON text; nothing counts as ``{}``.

        Raises:
            ArgumentError: they do not fit; its text is the observation.
        """
        return self.reader.read(self.name, arguments, texts)

    def needs_approval(self, arguments: Arguments) -> bool:
        """Whether a person must approve this call. A rule that fails counts as yes."""
        if not callable(self.approval):
            return self.approval
        try:
            return bool(self.approval(self.reader.fresh(arguments)))
        except Exception:  # noqa: BLE001 - in doubt, ask
            return True

    def invoke(
        self,
        arguments: Arguments,
        context: ActionContext | None,
        call: CallInfo,
        *,
        texts: Texts = ENGLISH,
        redactor: Redactor = _PATTERNS_ONLY,
        max_observation: int = MAX_OBSERVATION,
    ) -> Observation:
        """Run one call and return what the model reads of it. Safe to call from any thread.

        Whatever the tool raises or returns becomes an observation, within ``timeout`` seconds.

        Args:
            arguments: from ``parse``; the tool gets a copy.
            context: the job's hidden context.
            redactor: hides secrets; those of the context are added to it.
            max_observation: the agent's limit, in characters, if the tool has none of its own.

        Raises:
            PauseRequested: the tool asks for a person.
            ToolRegistrationError: the context is not of the class that the tool needs.
        """
        if self.role != "tool":
            raise RuntimeError(f"{self.name} is answered by the loop; it has nothing to run")
        limit = self.max_observation or max_observation
        return invoke(self, arguments, context, call, Surroundings(texts, redactor, limit))

    def overdue(
        self,
        context: ActionContext | None,
        *,
        texts: Texts = ENGLISH,
        redactor: Redactor = _PATTERNS_ONLY,
        max_observation: int = MAX_OBSERVATION,
    ) -> Observation:
        """What the model reads of a call that did not come back within ``timeout`` seconds.

        For whoever watches the clock itself (``worker.tools.seats``).
        """
        limit = self.max_observation or max_observation
        return overdue(self, context, Surroundings(texts, redactor, limit))

    @property
    def answer_is_wrapped(self) -> bool:
        """Whether a ``"terminate"`` tool takes the answer as its only parameter, ``result``."""
        return isinstance(self.reader, OutputReader) and self.reader.wrapped

    def answer(self, arguments: Arguments) -> Any:
        """The JSON value that a ``"terminate"`` tool was called with."""
        if not isinstance(self.reader, OutputReader):
            raise TypeError(f"{self.name} does not carry an agent's answer")
        values = self.reader.fresh(arguments)
        return values["result"] if self.reader.wrapped else values


def _checks(tool: Tool) -> list[tuple[bool, str]]:
    limits = (tool.max_calls, tool.max_observation)
    return [
        (tool.effects in get_args(Effects), f"effects must be one of {get_args(Effects)}"),
        (tool.cut in get_args(Cut), f"cut must be one of {get_args(Cut)}"),
        (
            0 < tool.timeout < math.inf,
            "timeout must be a finite number of seconds above 0",
        ),
        (
            all(n is None or (type(n) is int and n >= 1) for n in limits),
            "max_calls and max_observation must be whole numbers from 1, or None",
        ),
        (
            tool.max_repeats is None or (type(tool.max_repeats) is int and tool.max_repeats >= 2),
            "max_repeats must be a whole number from 2, or None",
        ),
        (
            isinstance(tool.approval, bool) or callable(tool.approval),
            "approval must be a bool or a function",
        ),
        (all(isinstance(tag, str) for tag in tool.tags), "tags must be texts"),
        (all(isinstance(label, str) for label in tool.labels), "labels must be texts"),
    ]
