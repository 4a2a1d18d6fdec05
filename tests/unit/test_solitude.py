"""One suspect at a time in a process (rule 15)."""

from __future__ import annotations

from worker.runner import RunnerSettings
from worker.solitude import Solitude


def test_the_place_is_for_one() -> None:
    place = Solitude()
    assert place.enter("a")
    assert not place.enter("b")
    assert not place.enter("a"), "a doubled message finds it taken, even by its own job"
    place.leave("b")
    assert not place.enter("b")
    place.leave("a")
    assert place.enter("b")


def test_half_of_the_attempts_are_shared() -> None:
    shared = [RunnerSettings(max_attempts=n).shared_attempts for n in range(1, 8)]
    assert shared == [1, 1, 2, 2, 3, 3, 4]
