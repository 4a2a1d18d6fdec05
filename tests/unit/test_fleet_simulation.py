"""The simulation of a fleet: the same at every run, and fair at every size."""

from __future__ import annotations

import pytest

from tests.simulation.fleet import Fleet, Simulation

SMALL = Fleet(workers=5, slots=4, minutes=20, tenants=8, load=0.7)


def test_the_same_seed_gives_the_same_run() -> None:
    assert Simulation(SMALL).run() == Simulation(SMALL).run()


def test_a_flood_holds_up_nobody_for_longer_than_a_slice() -> None:
    fleet = Fleet(workers=5, slots=4, minutes=20, tenants=8, load=0.7)
    found = Simulation(fleet).run()
    median, _ = found.waits_s["small"]
    assert median < fleet.slice_steps * fleet.step_s / 2
    assert found.shares["flood"] > 0.1 * sum(found.shares.values()), "what is left over is used"


def test_two_floods_share_by_weight() -> None:
    simulation = Simulation(Fleet(workers=4, slots=4, minutes=60, tenants=0), {"a": 3, "b": 1})
    for _ in range(2000):
        simulation.submit("a", 8)
        simulation.submit("b", 2)
    shares = simulation.run().shares
    assert shares["a"] / shares["b"] == pytest.approx(3, rel=0.1)


def test_commands_grow_with_the_slots_and_not_with_the_tenants() -> None:
    few = Simulation(Fleet(workers=4, minutes=5, tenants=4)).run()
    many = Simulation(Fleet(workers=4, minutes=5, tenants=40)).run()
    twice = Simulation(Fleet(workers=8, minutes=5, tenants=4)).run()
    assert many.all_commands_s == pytest.approx(few.all_commands_s, rel=0.2)
    assert twice.all_commands_s == pytest.approx(2 * few.all_commands_s, rel=0.2)
