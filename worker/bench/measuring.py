"""Medians with their spread, and measuring two things in turns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

F = TypeVar("F")
V = TypeVar("V")

Row = dict[str, Any]
"""One line of a part: ``floor``, ``value``, ``ratio`` and figures of its own."""

DIGITS = 4


def in_turns(times: int, floor: Callable[[], F], value: Callable[[], V]) -> tuple[list[F], list[V]]:
    """Measure floor, value, floor, value …: whatever disturbs the machine disturbs both."""
    floors: list[F] = []
    values: list[V] = []
    for _ in range(times):
        floors.append(floor())
        values.append(value())
    return floors, values


def row(floors: Sequence[float], values: Sequence[float], **figures: Any) -> Row:
    """A row from samples: the medians, their ratio (value to floor), and the least and the most."""
    floor, value = statistics.median(floors), statistics.median(values)
    return {
        "floor": rounded(floor),
        "value": rounded(value),
        "ratio": rounded(ratio(value, floor)),
        "floor_spread": [rounded(min(floors)), rounded(max(floors))],
        "value_spread": [rounded(min(values)), rounded(max(values))],
        **{name: rounded(figure) for name, figure in figures.items()},
    }


def median_of(samples: Sequence[V], figure: Callable[[V], float]) -> float:
    """The median of one figure over samples that hold many."""
    return statistics.median(figure(sample) for sample in samples)


def ratio(value: float, floor: float) -> float:
    """``value / floor``.

    Raises:
        ZeroDivisionError: nothing was measured of the floor.
    """
    return value / floor


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the least value that ``percent`` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def growth(times: Sequence[float], middle: Callable[[Sequence[float]], float]) -> float:
    """How the last tenth of a series compares with its first: ``middle`` of each, as a ratio."""
    tenth = max(1, len(times) // 10)
    return ratio(middle(times[-tenth:]), middle(times[:tenth]))


def rounded(figure: Any) -> Any:
    """A float with four significant digits, whatever its size; all else as it is."""
    if not isinstance(figure, float) or not math.isfinite(figure) or figure == 0:
        return figure
    return round(figure, DIGITS - 1 - math.floor(math.log10(abs(figure))))
