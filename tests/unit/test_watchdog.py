"""When a worker that takes no messages has stalled, and when it is only idle or busy."""

from __future__ import annotations

import pytest

from worker.watchdog import Patience, Sight

LIMIT_S = 60.0


def first_stall(sights: list[Sight], every_s: float = 10.0) -> float | None:
    """Seconds until the first sight that counts as a stall."""
    patience = Patience(LIMIT_S)
    for number, sight in enumerate(sights):
        if patience.stalled(sight, number * every_s):
            return number * every_s
    return None


def test_waiting_messages_and_free_slots_without_progress_are_a_stall() -> None:
    """The limit counts from the first sight at which nothing had been taken."""
    assert first_stall([Sight(waiting=3, taken=7, free=True)] * 20) == 10 + LIMIT_S


@pytest.mark.parametrize(
    "sight",
    [
        pytest.param(Sight(waiting=0, taken=7, free=True), id="nothing waits"),
        pytest.param(Sight(waiting=3, taken=7, free=False), id="all slots are busy"),
        pytest.param(Sight(waiting=None, taken=7, free=True), id="the broker is away"),
    ],
)
def test_nothing_else_is_a_stall(sight: Sight) -> None:
    """However long it lasts."""
    assert first_stall([sight] * 100) is None


def test_a_busy_queue_that_is_worked_on_is_no_stall() -> None:
    """Messages always wait, slots are free when looked at, but some are taken."""
    assert first_stall([Sight(waiting=9, taken=taken, free=True) for taken in range(100)]) is None


@pytest.mark.parametrize(
    "pause",
    [
        Sight(waiting=0, taken=7, free=True),
        Sight(waiting=3, taken=8, free=True),
        Sight(waiting=3, taken=7, free=False),
        Sight(waiting=None, taken=7, free=True),
    ],
)
def test_any_sign_of_life_starts_the_count_anew(pause: Sight) -> None:
    """One good sight in between is enough."""
    still = Sight(waiting=3, taken=pause.taken, free=True)
    before = [Sight(waiting=3, taken=7, free=True)] * 6
    seconds = first_stall([*before, pause, *[still] * 20])
    assert seconds == 70 + LIMIT_S
