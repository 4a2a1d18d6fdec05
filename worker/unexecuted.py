"""Tool calls that a model wrote as text instead of making them.

Such text is never run, and must not pass for an answer either. An answer that only talks about
calls is left alone: a mark counts where the text begins with it, or beside the name of a tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

# What the chat templates of the common open models put around a call.
_MARKS = re.compile(
    r"<tool_calls?>|<\|tool_calls?(?:_section)?(?:_begin)?\|>|<｜tool▁calls?▁begin｜>"
    r"|<function_calls?>|<function=|<invoke name=|<\|python_tag\|>|\[TOOL_CALLS\]",
    re.IGNORECASE,
)
_FENCE = re.compile(r"```[\w-]*\s*\n(.*?)```", re.DOTALL)
_NAME_KEYS = ("name", "tool", "tool_name", "function")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")


def looks_like_a_call(text: str, tool_names: Collection[str]) -> bool:
    """Whether the text is, or holds, a call of one of these tools that nobody has made."""
    return _marked(text, tool_names) or any(
        _is_call(block, tool_names) for block in _json_blocks(text)
    )


def _marked(text: str, tool_names: Collection[str]) -> bool:
    mark = _MARKS.search(text)
    if mark is None:
        return False
    rest = text[mark.end() :]
    return not text[: mark.start()].strip() or any(name in rest for name in tool_names)


def _json_blocks(text: str) -> Iterator[Any]:
    """The whole text, and each fenced block, where they are JSON."""
    for block in (text, *_FENCE.findall(text)):
        if block.lstrip()[:1] in ("{", "["):
            try:
                yield json.loads(block)
            except (ValueError, RecursionError):
                continue


def _is_call(value: Any, tool_names: Collection[str]) -> bool:
    """Whether a JSON value has the form of a call of a registered tool."""
    if isinstance(value, list):
        return bool(value) and all(_is_call(item, tool_names) for item in value)
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("function"), dict):
        value = value["function"]
    named = any(_is_name(value.get(key), tool_names) for key in _NAME_KEYS)
    return named and any(key in value for key in _ARGUMENT_KEYS)


def _is_name(value: Any, tool_names: Collection[str]) -> bool:
    return isinstance(value, str) and value in tool_names
