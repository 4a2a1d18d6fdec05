"""The message list: append-only, and valid before every request.

Messages are plain dicts in the OpenAI chat format. ``Transcript`` keeps two readings of them:
``stored``, in the order in which they were committed, and ``view``, what a model is shown, in
which the answers of one reply stand in the order of its calls (a person's answer comes late).
Every check is incremental, so that a step costs the same however long the list is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Message = dict[str, Any]


class InvalidHistory(ValueError):
    """A message does not fit behind the ones before it; says which and why."""


def system(text: str) -> Message:
    """The goal of an agent."""
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    """The task, or a note of ours to the model: never a second system message."""
    return {"role": "user", "content": text}


def observation(call_id: str, text: str) -> Message:
    """What the model reads of one call."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


class Transcript:
    """The messages of one job.

    Args:
        messages: what the store holds, oldest first.

    Raises:
        InvalidHistory: they break the rules of the format.
    """

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.stored: list[Message] = []
        self.view: list[Message] = []
        self._open: dict[str, Mapping[str, Any]] = {}
        self._group_start = 0
        self.call_ids: set[str] = set()
        self._unsaved = 0
        self.replies = 0
        for message in messages:
            self.append(message)
        self._unsaved = 0

    def append(self, message: Message) -> int:
        """Add one message; returns its index in ``stored``."""
        role = message.get("role")
        if role == "tool":
            self._answer(message)
        else:
            self._check_all_answered(role)
            self.view.append(message)
            if role == "assistant":
                self._open_calls(message)
        self.stored.append(message)
        self._unsaved += 1
        return len(self.stored) - 1

    def _check_all_answered(self, role: object) -> None:
        if self._open:
            waiting = ", ".join(self._open)
            raise InvalidHistory(f"a {role} message comes while calls are unanswered: {waiting}")

    def _open_calls(self, message: Message) -> None:
        self.replies += 1
        self._group_start = len(self.view)
        for call in message.get("tool_calls") or ():
            if call["id"] in self._open:
                raise InvalidHistory(f"two calls of one reply have the id {call['id']!r}")
            self._open[call["id"]] = call
            self.call_ids.add(call["id"])

    def _answer(self, message: Message) -> None:
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str) or call_id not in self._open:
            raise InvalidHistory(f"an answer names the call {call_id!r}, which is not open")
        del self._open[call_id]
        self.view.append(message)
        if not self._open:
            self._put_in_order()

    def _put_in_order(self) -> None:
        group = self.view[self._group_start :]
        calls = self.view[self._group_start - 1]["tool_calls"]
        place = {call["id"]: number for number, call in enumerate(calls)}
        if any(place[m["tool_call_id"]] != number for number, m in enumerate(group)):
            group.sort(key=lambda m: place[m["tool_call_id"]])
            self.view[self._group_start :] = group

    @property
    def pending(self) -> list[Mapping[str, Any]]:
        """The calls of the last reply that have no answer yet, in the model's order."""
        return list(self._open.values())

    @property
    def last_calls(self) -> Sequence[Mapping[str, Any]]:
        """All calls of the last reply, answered or not."""
        if not self.replies:
            return ()
        return self.view[self._group_start - 1].get("tool_calls") or ()

    @property
    def is_saved(self) -> bool:
        """Whether commits have carried all messages."""
        return not self._unsaved

    def take_unsaved(self) -> list[Message]:
        """The messages that no commit has carried yet; from now on they count as carried."""
        unsaved = self.stored[len(self.stored) - self._unsaved :] if self._unsaved else []
        self._unsaved = 0
        return unsaved

    def request(self) -> Sequence[Message]:
        """The view, for a model call.

        Raises:
            InvalidHistory: a call is unanswered (design rule 8).
        """
        self._check_all_answered("model")
        return self.view
