"""A model that follows a script, so that everything around a model can be tested for nothing.

The line to say is found in the history: the number of assistant messages in it. So a job that is
resumed in another process goes on at the right line, and one model serves many jobs at once.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from worker.models.base import Message, ModelError, ModelReply, ModelRequest, Usage
from worker.models.function import as_reply, with_ids

Line = str | Message | ModelReply | Callable[[ModelRequest], Any]
# Lines and exceptions. Not said in the type: a list of both is inferred as something else.
Script = Sequence[Any]


def say(text: str, **fields: Any) -> Message:
    """A line that only says something: a final answer. ``fields`` are added to the message."""
    return {"role": "assistant", "content": text, **fields}


def act(plan: str | None, *calls: tuple[Any, ...], **fields: Any) -> Message:
    """A line that calls tools.

    Args:
        plan: the text beside the calls, None or ``""`` for none.
        calls: ``(tool, arguments)`` or ``(tool, arguments, id)``; the arguments are a dict, or
            text that is sent as it stands. Ids left out are given by the script's line number.
        fields: added to the message.
    """
    entries = [_call(*call) for call in calls]
    return {"role": "assistant", "content": plan or None, "tool_calls": entries, **fields}


def _call(tool: str, arguments: Any = None, call_id: str | None = None) -> dict[str, Any]:
    text = (
        arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    )
    entry = {"type": "function", "function": {"name": tool, "arguments": text}}
    return entry if call_id is None else {"id": call_id, **entry}


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line, and the errors that come before it, in their order."""

    line: Line | None
    errors: tuple[Exception, ...] = ()


class ScriptedModel:
    """Says the lines of a script, and objects to whatever the script does not foresee.

    Args:
        script: the lines, each text (a final answer), a message (see `say` and `act`), a
            `ModelReply`, or a function of the request that gives one of these. An exception is
            raised once, before the line that follows it: errors leave no mark in the history, so
            they are counted in this instance, and a resumed job in a new process meets them again.
        usage: reported with every line that brings none of its own.
        name: stands in traces.
    """

    def __init__(self, script: Script, usage: Usage | None = None, name: str = "scripted") -> None:
        self._set_up({"": script}, usage, name)

    @classmethod
    def by_task(
        cls, scripts: Mapping[str, Script], usage: Usage | None = None, name: str = "scripted"
    ) -> ScriptedModel:
        """One script per task: the first whose key stands in the first user message is played."""
        model = cls.__new__(cls)
        model._set_up(scripts, usage, name)
        return model

    def _set_up(self, scripts: Mapping[str, Script], usage: Usage | None, name: str) -> None:
        self.name = name
        self._usage = usage
        self._scripts = {task: _entries(script) for task, script in scripts.items()}
        self._lock = threading.Lock()
        self._raised: Counter[tuple[str, int]] = Counter()
        self._said: set[tuple[str, int]] = set()

    def reply(self, request: ModelRequest) -> ModelReply:
        """Say the next line.

        Raises:
            ModelError: with fate ``fail`` past the end of the script or for an unknown task, or
                the script's own errors.
        """
        task = self._task_of(request.messages)
        number = sum(1 for m in request.messages if m.get("role") == "assistant")
        entry = self._entry(task, number, request)
        self._raise_due(task, number, entry)
        if entry.line is None:
            raise self._surprise(task, number, request)
        with self._lock:
            self._said.add((task, number))
        line = entry.line(request) if callable(entry.line) else entry.line
        return self._finished(as_reply(line, self.name), number)

    async def areply(self, request: ModelRequest) -> ModelReply:
        """The same as `reply`; it never blocks."""
        return self.reply(request)

    def unused(self) -> list[str]:
        """The lines nobody has asked for and the errors not raised yet, in words."""
        found = []
        for task, entries in self._scripts.items():
            for number, entry in enumerate(entries):
                where = f"line {number + 1}" + (f" of {task!r}" if task else "")
                left = entry.errors[self._raised[task, number] :]
                found += [f"{where}: {error!r}" for error in left]
                if entry.line is not None and (task, number) not in self._said:
                    found.append(f"{where}: {_short(entry.line)}")
        return found

    def assert_finished(self) -> None:
        """Raises `AssertionError` naming what `unused` finds."""
        unused = self.unused()
        if unused:
            raise AssertionError("the script was not played to its end: " + "; ".join(unused))

    def _task_of(self, messages: Sequence[Message]) -> str:
        text = next((_text(m) for m in messages if m.get("role") == "user"), "")
        for task in self._scripts:
            if task in text:
                return task
        known = ", ".join(repr(task) for task in self._scripts)
        message = (
            f"{self.name}: no script for the task {text[:80]!r}; there are scripts for {known}"
        )
        raise ModelError(message, "fail", code="unscripted")

    def _entry(self, task: str, number: int, request: ModelRequest) -> _Entry:
        entries = self._scripts[task]
        if number >= len(entries):
            raise self._surprise(task, number, request)
        return entries[number]

    def _raise_due(self, task: str, number: int, entry: _Entry) -> None:
        with self._lock:
            count = self._raised[task, number]
            if count == len(entry.errors):
                return
            self._raised[task, number] += 1
        raise entry.errors[count]

    def _surprise(self, task: str, number: int, request: ModelRequest) -> ModelError:
        lines = sum(entry.line is not None for entry in self._scripts[task])
        last = _short(_text(request.messages[-1])) if request.messages else "nothing"
        text = f"{self.name}: asked for line {number + 1} of a script of {lines}, after {last}"
        return ModelError(text, "fail", code="unscripted")

    def _finished(self, reply: ModelReply, number: int) -> ModelReply:
        """The reply with what the script left out: ids, usage, the model's name."""
        return replace(
            reply,
            message=with_ids(reply.message, number + 1),
            usage=reply.usage or self._usage,
            model=reply.model or self.name,
        )


def _entries(script: Iterable[Line | Exception]) -> tuple[_Entry, ...]:
    """The lines, each with the errors before it; errors at the end stand before no line."""
    entries: list[_Entry] = []
    errors: list[Exception] = []
    for item in script:
        if isinstance(item, Exception):
            errors.append(item)
        else:
            entries.append(_Entry(item, tuple(errors)))
            errors = []
    return (*entries, _Entry(None, tuple(errors))) if errors else tuple(entries)


def _text(message: Message) -> str:
    """What a message says, as one text."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
    return content if isinstance(content, str) else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
