"""What the fixture ``encryption`` gives a test."""

from __future__ import annotations

from typing import Protocol


class UseKeys(Protocol):
    """Have this process encrypt with other keys; with ``""`` it does not."""

    def __call__(self, keys: str, *, required: bool = False) -> None: ...
