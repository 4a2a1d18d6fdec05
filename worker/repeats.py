"""The same action again and again: noticing it, and what follows.

An action is a tool's name and its arguments. Only what brings no news counts: an observation that
differs from the last one starts the count again, so that polling something that moves is fine.
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64

from worker.state import Repeats
from worker.tools import Arguments, Tool


def action_of(tool: Tool, arguments: Arguments, limit: int | None) -> str | None:
    """What stands for an action in the run state; nothing does if it may be repeated at will."""
    return None if limit is None else digest(f"{tool.name}({arguments.canonical})")


def is_repeated(repeats: Repeats, action: str | None, limit: int | None) -> bool:
    """Whether running ``action`` would be the ``limit``-th time without any news."""
    return limit is not None and repeats.action == action and repeats.times >= limit - 1


def count_repeat(repeats: Repeats, action: str | None, content: str) -> None:
    """Note that ``action`` was run and what was observed; ``None``: one that has no limit."""
    if action is None:
        repeats.action, repeats.observation, repeats.times = "", "", 0
        return
    seen = digest(content)
    if repeats.action == action and repeats.observation == seen:
        repeats.times += 1
    else:
        repeats.action, repeats.observation, repeats.times = action, seen, 1


def digest(text: str) -> str:
    """Eight characters that stand for a text of any length."""
    data = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).digest()
    return b2a_base64(data, newline=False).translate(_URLSAFE).decode()


_URLSAFE = bytes.maketrans(b"+/", b"-_")
