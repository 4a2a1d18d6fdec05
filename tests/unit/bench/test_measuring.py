"""Medians, ratios, turns, percentiles: the arithmetic of the benchmark."""

from __future__ import annotations

from functools import partial
from statistics import fmean, median

import pytest

from worker.bench.measuring import growth, in_turns, median_of, percentile, ratio, rounded, row


def test_floor_and_value_are_measured_in_turns() -> None:
    order: list[str] = []

    def measured(what: str) -> int:
        order.append(what)
        return len(order)

    floors, values = in_turns(3, partial(measured, "floor"), partial(measured, "value"))
    assert order == ["floor", "value"] * 3
    assert (floors, values) == ([1, 3, 5], [2, 4, 6])


def test_a_row_holds_medians_their_ratio_and_the_spread() -> None:
    found = row([100.0, 400.0, 200.0], [50.0, 10.0, 90.0], k=10, name="x", nothing=None)
    assert found == {
        "floor": 200.0,
        "value": 50.0,
        "ratio": 0.25,
        "floor_spread": [100.0, 400.0],
        "value_spread": [10.0, 90.0],
        "k": 10,
        "name": "x",
        "nothing": None,
    }


def test_without_a_floor_there_is_no_ratio() -> None:
    with pytest.raises(ZeroDivisionError):
        ratio(1.0, 0.0)


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50.0), (95, 95.0), (99, 99.0), (100, 100.0), (0, 1.0)]
)
def test_a_percentile_is_one_of_the_values(percent: float, expected: float) -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], percent) == expected


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 99) == 7.0


def test_growth_compares_the_last_tenth_with_the_first() -> None:
    times = [1.0] * 10 + [5.0] * 80 + [2.0] * 9 + [100.0]
    assert growth(times, median) == 2.0
    assert growth(times, fmean) == pytest.approx(11.8)
    assert growth([2.0, 1.0], median) == 0.5


def test_the_median_of_one_figure() -> None:
    assert median_of([(1, 9.0), (2, 7.0), (3, 8.0)], lambda sample: sample[1]) == 8.0


@pytest.mark.parametrize(
    ("given", "expected"),
    [(1234.56, 1235.0), (0.00123456, 0.001235), (0.0, 0.0), (12345678, 12345678), ("a", "a")],
)
def test_floats_have_four_digits_and_all_else_stays(given: object, expected: object) -> None:
    assert rounded(given) == expected
