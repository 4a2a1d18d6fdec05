"""Who may see and answer a pause: the one rule, for every way in."""

from __future__ import annotations

from collections.abc import Collection


def may_answer(wanted: Collection[str], held: Collection[str] | None) -> bool:
    """Whether somebody may see and answer a pause.

    Args:
        wanted: the pause's labels; anybody may, if there are none.
        held: the person's labels; ``None`` for one who may everything.
    """
    return held is None or not wanted or not set(wanted).isdisjoint(held)
