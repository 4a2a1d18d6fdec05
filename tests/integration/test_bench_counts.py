"""What a step costs, counted by the benchmark: each count may fall, and none may rise.

Times are printed and judged by nobody: they differ from machine to machine.
"""

from __future__ import annotations

from typing import Any

import pytest

from worker.bench import steps
from worker.bench.room import room
from worker.bench.stepping import stepper
from worker.embedded import Fsync

K = 100
BOUNDS = {
    "round_trips_per_step": 2.0,
    "round_trips_per_job": 2.0 * K + 2,
    "commands_per_step": 10.6,
    "sent_bytes_per_step": 1580.0,
    "stored_bytes_ratio": 1.24,
    "aof_bytes_ratio": 1.88,
}
"""The most of each, for a job of K steps; lower one when the code has become cheaper."""


@pytest.fixture(scope="module", params=["everysec", "always"])
def row(request: pytest.FixtureRequest) -> dict[str, Any]:
    fsync: Fsync = request.param
    with room(fsync) as here, stepper(here) as running:
        run = running.run(K)  # loads the scripts
        found = steps.counts(here, running, K)
    print(f"\n{fsync}: {K / run.seconds:.0f} steps/s, {found}")
    return found


@pytest.mark.parametrize("count", BOUNDS)
def test_no_count_has_grown(row: dict[str, Any], count: str) -> None:
    assert 0 < row[count] <= BOUNDS[count]


def test_the_counts_do_not_depend_on_the_length(row: dict[str, Any]) -> None:
    with room() as here, stepper(here) as running:
        running.run(10)
        long = steps.counts(here, running, 5 * K)
    assert long["round_trips_per_step"] == row["round_trips_per_step"]
    assert long["stored_bytes_ratio"] <= row["stored_bytes_ratio"]
    assert long["aof_bytes_ratio"] <= row["aof_bytes_ratio"]


def test_a_sample_is_as_many_steps_as_it_says() -> None:
    with room() as here, stepper(here) as running:
        run = running.run(7)
        assert len(run.steps_s) == 7
        assert len(running.store.messages(run.job_id)) == 2 + 2 * 7 + 1
