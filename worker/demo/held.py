"""A model for the demo: it answers as another does, counts, and holds one reply back."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

from worker.estimate import count_tokens
from worker.models.base import Model, ModelReply, ModelRequest, Usage

Line = tuple[str, int]
"""A task, and which reply to it, from 1."""


class HeldModel:
    """Another model behind a gate.

    Args:
        model: gives the replies.
        line: the reply that is held back until ``open`` is called.
    """

    name = "demo"

    def __init__(self, model: Model, line: Line) -> None:
        self._model = model
        self._line = line
        self._lock = threading.Lock()
        self._asked: Counter[Line] = Counter()
        self._reached = threading.Event()
        self._opened = threading.Event()

    def reply(self, request: ModelRequest) -> ModelReply:
        """The reply, when the gate is open, with an estimate of its tokens."""
        line = _line_of(request)
        with self._lock:
            self._asked[line] += 1
        if line == self._line:
            self._reached.set()
            self._opened.wait()
        reply = self._model.reply(request)
        usage = Usage(count_tokens(request.messages), count_tokens([reply.message]))
        return replace(reply, usage=usage)

    def open(self) -> None:
        """Let every reply through, from now on."""
        self._opened.set()

    def wait_held(self, timeout_s: float) -> bool:
        """Wait until the reply is asked for; whether it was."""
        return self._reached.wait(timeout_s)

    def asked(self, task: str) -> list[int]:
        """How often each reply to a task was asked for, in their order."""
        with self._lock:
            counts = {number: n for (of, number), n in self._asked.items() if of == task}
        return [counts[number] for number in sorted(counts)]


def _line_of(request: ModelRequest) -> Line:
    task = next((m["content"] for m in request.messages if m.get("role") == "user"), "")
    return task, 1 + sum(m.get("role") == "assistant" for m in request.messages)
