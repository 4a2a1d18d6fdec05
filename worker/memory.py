"""What a model sees of a long transcript. The full list stays in the store.

A view is valid: calls and their answers stay together, the goal and the task stay in front, and
what is left out is said in a note, or told by a summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from worker.errors import AgentDefinitionError
from worker.messages import Message, user
from worker.models.base import Model
from worker.texts import Texts

Count = Callable[[Iterable[Message]], int]


@dataclass(frozen=True, slots=True)
class Everything:
    """The model sees the whole transcript."""

    tokens: None = None


@dataclass(frozen=True, slots=True)
class LastTokens:
    """The model sees the goal, the task, and as many of the last messages as fit.

    Attributes:
        tokens: estimated tokens of all that is shown.
    """

    tokens: int

    def __post_init__(self) -> None:
        _check(self.tokens)


@dataclass(frozen=True, slots=True)
class Summarised:
    """As ``LastTokens``, but what is left out is told by a summary.

    A summary is written when the view has outgrown ``tokens``, and covers so much that the rest
    needs half of them. It is committed like any message, so it is paid for once.

    Attributes:
        tokens: estimated tokens of all that is shown.
        model: writes the summaries; the agent's own if ``None``.
    """

    tokens: int
    model: Model | None = None

    def __post_init__(self) -> None:
        _check(self.tokens)


Memory = Everything | LastTokens | Summarised
EVERYTHING = Everything()


def _check(tokens: int) -> None:
    if tokens < 1:
        raise AgentDefinitionError(f"memory: tokens={tokens} must be a whole number from 1")


@dataclass(frozen=True, slots=True)
class SummaryPlace:
    """Where a summary stands in the transcript, and what it covers.

    Attributes:
        upto: index of the first message behind the head that it does not cover.
        at: index of the summary itself.
    """

    upto: int
    at: int


def head_length(messages: Sequence[Message]) -> int:
    """How many messages always stay in front: the goal and the task."""
    roles = [message.get("role") for message in messages[:2]]
    if roles[:1] == ["system"]:
        return 2 if roles[1:] == ["user"] else 1
    return 1 if roles[:1] == ["user"] else 0


def cut_at(messages: Sequence[Message], start: int, room: int, count: Count) -> int:
    """Index from which on the messages fit into ``room`` tokens, in whole groups.

    A group is a reply with its answers, or any other message. The last group is always kept,
    however large it is: without the answers to its last calls a model cannot go on.

    Args:
        start: index before which nothing is looked at.
    """
    kept = end = len(messages)
    for index in range(len(messages) - 1, start - 1, -1):
        if messages[index].get("role") == "tool":
            continue
        room -= count(messages[index:end])
        if room < 0 and kept < len(messages):
            return kept
        kept = end = index
        if room < 0:
            return kept
    return kept


def shown(
    messages: Sequence[Message],
    room: int | None,
    count: Count,
    texts: Texts,
    summary: SummaryPlace | None = None,
) -> Sequence[Message]:
    """The view of a transcript that a model is shown.

    Args:
        room: tokens it may have; ``None`` for any number.
        summary: told in place of the messages that it covers.
    """
    if room is None and summary is None:
        return messages
    head = head_length(messages)
    front = list(messages[:head])
    start = head
    if summary is not None:
        front.append(messages[summary.at])
        start = summary.upto
    kept = start if room is None else cut_at(messages, start, room - count(front), count)
    if kept > start:
        front.append(user(texts.long_history(kept - start)))
    if summary is None:
        return messages if kept == head else [*front, *messages[kept:]]
    rest = [m for i, m in enumerate(messages[kept:], kept) if i != summary.at]
    return [*front, *rest]


def transcribed(messages: Iterable[Message]) -> str:
    """Messages as a text to be summarised: who said what, and which tools were called."""
    return "\n".join(line for message in messages for line in _lines(message))


def _lines(message: Message) -> list[str]:
    role, content = message.get("role", "?"), message.get("content")
    lines = [f"{role}: {content}"] if content else []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        lines.append(f"{role} calls {function['name']}({function['arguments']})")
    return lines
