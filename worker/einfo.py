"""Cheap ends of messages: most of them end with ``Ignore``, for which Celery keeps a traceback.

For each frame of it, twice a message, billiard copies the table of positions of that frame's code,
which takes more time than claiming a job. The copies of one code object are all the same.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from billiard import einfo

MOST_KEPT = 1000

_copies: dict[int, tuple[CodeType, Any]] = {}


def copy_of(code: CodeType) -> Any:
    """billiard's copy of a code object, made once.

    Kept by identity: code objects compare equal that stand in different files.
    """
    known = _copies.get(id(code))
    if known is not None and known[0] is code:
        return known[1]
    if len(_copies) >= MOST_KEPT:
        _copies.clear()
    copied = einfo._Code(code)
    _copies[id(code)] = (code, copied)
    return copied


def reuse_copies() -> None:
    """Let billiard take its copies from here, in this process and its children."""
    einfo._Frame.Code = staticmethod(copy_of)  # type: ignore[assignment] # it is only called
