"""Running a few functions at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")

MOST = 16


def side_by_side(functions: Sequence[Callable[[], T]]) -> tuple[T, ...]:
    """The results, in order; at most sixteen run at a time, each in a copy of this context."""
    with ThreadPoolExecutor(min(len(functions), MOST), "stepkeeper-parallel") as pool:
        return tuple(pool.map(lambda function: copy_context().run(function), functions))
