"""A switch for tests: no call leaves this machine for a model.

Alone in a module that imports nothing, so that to throw it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_forbidden = False


def forbid_real_calls(forbid: bool = True) -> bool:
    """Refuse calls to models that are not on this machine, or allow them again.

    Returns whether they were forbidden before.
    """
    global _forbidden
    before, _forbidden = _forbidden, forbid
    return before


def real_calls_forbidden() -> bool:
    """Whether calls to models elsewhere are refused."""
    return _forbidden


@contextmanager
def real_calls(*, forbidden: bool) -> Iterator[None]:
    """Forbid or allow them in the block."""
    before = forbid_real_calls(forbidden)
    try:
        yield
    finally:
        forbid_real_calls(before)
