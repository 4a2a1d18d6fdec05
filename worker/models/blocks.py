"""Replies that come as a list of blocks: kept in their order through a list of messages.

The Responses and the Messages API answer with blocks: text, calls, and reasoning that the provider
wants back unchanged and in its place. A message keeps text and calls where every message has them,
and the rest, with markers for the places of those two, in a field of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from worker.models.base import Message

Block = dict[str, Any]

TEXT, CALL = "text", "call"
"""The markers for the place of the message's text and of its next call."""

RESPONSE_ITEMS, CONTENT_BLOCKS = "response_items", "content_blocks"
"""The fields of a message that keep the order: of the Responses and of the Messages API."""


def set_order(message: Message, field: str, order: Sequence[Block | str]) -> None:
    """Keep the order of a reply's blocks in the message, if there is more than text and calls."""
    if any(isinstance(item, dict) for item in order):
        message[field] = list(order)


def in_order(
    message: Message, field: str, texts: Sequence[Block], calls: Sequence[Block]
) -> list[Block]:
    """The blocks of a message in the order they came in: the text first if nothing says else.

    What the kept order has no place for comes at the end, so nothing is ever left out.
    """
    left_texts, left_calls = list(texts), list(calls)
    blocks: list[Block] = []
    for item in message.get(field) or (TEXT,):
        if item == TEXT:
            blocks += left_texts
            left_texts = []
        elif item == CALL:
            blocks += left_calls[:1]
            left_calls = left_calls[1:]
        elif isinstance(item, dict):
            blocks.append(item)
    return [*blocks, *left_texts, *left_calls]


def make_message(texts: Iterable[str], calls: Sequence[Block], refusal: str | None) -> Message:
    """A message of the chat format."""
    text = "".join(texts)
    message: Message = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = list(calls)
    if refusal:
        message["refusal"] = refusal
    return message


def make_call(call_id: Any, name: Any, arguments: Any) -> Block:
    """A tool call of the chat format; arguments may be text or the value itself."""
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def is_system(message: Message) -> bool:
    """Whether the message gives instructions instead of being part of the talk."""
    return message.get("role") in ("system", "developer")


def leading_instructions(messages: Sequence[Message]) -> str:
    """The text of the system messages at the beginning."""
    texts = []
    for message in messages:
        if not is_system(message):
            break
        texts.append(plain_text(message.get("content")))
    return "\n\n".join(texts)


def plain_text(content: Any) -> str:
    """What a content says, without its pictures."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def convert_parts(
    content: Any, text: Callable[[str], Block], image: Callable[[str], Block]
) -> Iterator[Block]:
    """The parts of a user's content in another format, made by the two functions.

    Args:
        text: makes a block of a text that is not empty.
        image: makes a block of a picture's URL.
    """
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for part in content if isinstance(content, list) else ():
        if part.get("type") == "text" and part.get("text"):
            yield text(part["text"])
        elif part.get("type") == "image_url":
            yield image(part["image_url"]["url"])


def argument_values(arguments: str) -> dict[str, Any]:
    """The arguments of a stored call as an object, empty if they are none."""
    try:
        values = json.loads(arguments)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
