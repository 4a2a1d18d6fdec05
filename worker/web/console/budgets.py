"""What a job has used of what it may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from api_client.contract import JobView

NAMES = ("steps", "tokens", "cost", "active_s")


@dataclass(frozen=True, slots=True)
class Bar:
    """One budget.

    Attributes:
        limit: with what people have added; ``None``: there is none.
        percent: of the limit, at most 100.
    """

    name: str
    used: float
    limit: float | None
    granted: float
    percent: float

    @property
    def tight(self) -> bool:
        """Hardly anything is left."""
        return self.limit is not None and self.percent >= 90


def bars(view: JobView, limits: Mapping[str, float]) -> list[Bar]:
    """The budgets of a job.

    Args:
        limits: of its agent, as workers announced them.
    """
    used = {
        "steps": float(view.steps),
        "tokens": float(view.usage.total_tokens),
        "cost": view.usage.cost or 0.0,
        "active_s": round(view.active_ms / 1000, 1),
    }
    names: Sequence[str] = [n for n in NAMES if n != "cost" or n in limits or view.usage.cost]
    return [_bar(name, used[name], limits.get(name), view) for name in names]


def _bar(name: str, used: float, limit: float | None, view: JobView) -> Bar:
    granted = view.granted.get(name, 0.0)
    caps = [value for value in (limit, view.spec.caps.get(name)) if value is not None]
    whole = min(caps) + granted if caps else None
    percent = min(100.0, 100 * used / whole) if whole else 0.0
    return Bar(name, used, whole, granted, round(percent, 1))
