"""The language of chaos jobs: what a job's words make its model say, and what must come of it.

A job's input is ``job NUMBER: WORD WORD …``. Each word is one model reply; words joined by ``+``
are several calls in one reply. When no word is left, the model answers with the tokens that it
has read, in their order, so that a lost, doubled or misplaced observation changes the answer.

``look`` reads, ``put`` writes under its idempotency key, ``pay`` must happen once, ``fail`` is a
tool that fails, ``ask`` hands over to a person, ``busy`` is refused with a 429 and then looks,
``break`` is an error of the model that no repetition can help.

Everything here is a pure function of text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

EFFECTS = {"look": "safe", "put": "idempotent", "pay": "once"}
"""The tools that leave a trace in the ledger, and the classes of their side effects."""

_INPUT = re.compile(r"job (\d+): (.+)")
_TOKEN = re.compile(r"<(?:look|put|pay|fail|ask) [^<>]*>")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a job: its tool, and its place as ``JOB.STEP.NUMBER``."""

    tool: str
    place: str


@dataclass(frozen=True, slots=True)
class Script:
    """What one job is to do."""

    number: int
    words: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Script:
        """The script that an input says.

        Raises:
            ValueError: the text is no input of a chaos job.
        """
        match = _INPUT.fullmatch(text)
        if match is None:
            raise ValueError(f"not the input of a chaos job: {text[:80]!r}")
        return cls(int(match[1]), tuple(match[2].split()))

    @property
    def text(self) -> str:
        """The input."""
        return f"job {self.number}: {' '.join(self.words)}"

    def calls(self, step: int) -> list[Call]:
        """The calls of one reply; steps count from 1."""
        names = self.words[step - 1].replace("busy", "look").split("+")
        return [Call(tool, f"{self.number}.{step}.{i}") for i, tool in enumerate(names)]

    def message(self, step: int) -> dict[str, Any]:
        """The model's reply that asks for these calls."""
        entries = [_entry(call) for call in self.calls(step)]
        return {"role": "assistant", "content": f"step {step}", "tool_calls": entries}

    def effects(self, until: int | None = None) -> list[Call]:
        """The calls with a side-effect class, of the first ``until`` steps or of all."""
        steps = range(1, len(self.words[:until]) + 1)
        return [
            call
            for step in steps
            if self.words[step - 1] != "break"
            for call in self.calls(step)
            if call.tool in EFFECTS
        ]

    def answer(self, people: Sequence[str]) -> str:
        """The answer that must come out.

        Args:
            people: who answered the questions of this job, in their order.
        """
        answering = iter(people)
        calls = [call for step in range(1, len(self.words) + 1) for call in self.calls(step)]
        return " ".join(
            human_token(call.place, next(answering, "nobody"))
            if call.tool == "ask"
            else token(call.tool, call.place)
            for call in calls
        )


def _entry(call: Call) -> dict[str, Any]:
    step, number = call.place.split(".")[1:]
    if call.tool == "ask":
        name, arguments = "hand_to_human", {"reason": f"question {call.place}"}
    else:
        name, arguments = call.tool, {"place": call.place}
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{step}_{number}", "type": "function", "function": function}


def token(tool: str, place: str) -> str:
    """What a tool's observation holds."""
    return f"<{tool} {place}>"


def human_token(place: str, by: str) -> str:
    """What a person's answer holds."""
    return f"<ask {place} {by}>"


def place_of_question(question: str) -> str:
    """The place of the call that handed over with this reason."""
    return question.removeprefix("question ")


def next_step(messages: Sequence[Mapping[str, Any]]) -> int:
    """The number of the reply that comes next, from 1."""
    return 1 + sum(1 for message in messages if message["role"] == "assistant")


def read_tokens(messages: Sequence[Mapping[str, Any]]) -> str:
    """The tokens of all observations, in their order."""
    texts = [str(message["content"]) for message in messages if message["role"] == "tool"]
    return " ".join(found for text in texts for found in _TOKEN.findall(text))
