"""What a check says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["error", "warning", "advice"]
"""``error``: jobs are lost, stuck or refused; ``warning``: they are once something else fails;
``advice``: they are not, and something could be held better."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        area: where: ``redis``, ``celery``, ``workers``, ``encryption``, ``environment``, ``model``
            or ``limits``.
        setting: what to change; the name that its owner gives it.
        what: what is there, and what comes of it.
        fix: what to set it to, or to do.
    """

    level: Level
    area: str
    setting: str
    what: str
    fix: str

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


Findings = Iterator[Finding]


def error(area: str, setting: str, what: str, fix: str) -> Finding:
    """Something that loses, stops or refuses jobs."""
    return Finding("error", area, setting, what, fix)


def warning(area: str, setting: str, what: str, fix: str) -> Finding:
    """Something that will, if something else fails."""
    return Finding("warning", area, setting, what, fix)


def advice(area: str, setting: str, what: str, fix: str) -> Finding:
    """Something that harms no job, and could be better."""
    return Finding("advice", area, setting, what, fix)
