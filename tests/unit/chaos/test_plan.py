"""What a seed decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api_client.errors import InvalidInput
from worker.chaos.options import PROFILES, Options
from worker.chaos.plan import MOST_STAYING, make_plan

OPTIONS = Options(jobs=300, workers=2, kills=30, redis_restarts=3, seed=1)


def test_the_same_seed_draws_the_same_plan() -> None:
    assert make_plan(OPTIONS) == make_plan(replace(OPTIONS, keep=Path("elsewhere")))


def test_another_seed_draws_other_jobs_and_strikes() -> None:
    one, other = make_plan(OPTIONS), make_plan(replace(OPTIONS, seed=2))
    assert one.jobs != other.jobs
    assert one.strikes != other.strikes


@pytest.mark.parametrize("profile", PROFILES)
def test_a_plan_holds_what_was_asked_for(profile: str) -> None:
    options = Options(**PROFILES[profile])
    plan = make_plan(options)
    deeds = Counter(strike.deed for strike in plan.strikes)
    kills = deeds["kill"] + sum(strike.both for strike in plan.strikes)
    assert [job.number for job in plan.jobs] == list(range(1, options.jobs + 1))
    assert (kills, deeds["restart_redis"]) == (options.kills, options.redis_restarts)
    assert deeds["double_hint"] == deeds["drop_hint"] == options.jobs // 10


def test_strikes_come_in_order_and_spread_over_the_whole_run() -> None:
    moments = [strike.after for strike in make_plan(OPTIONS).strikes]
    assert moments == sorted(moments)
    assert moments[0] <= 10
    assert moments[-1] > 290
    assert moments[-1] <= 300


def test_twenty_jobs_are_of_every_kind() -> None:
    kinds = Counter(job.kind for job in make_plan(replace(OPTIONS, jobs=20)).jobs)
    assert set(kinds) == {
        *("look", "put", "pay", "many", "ask", "long"),
        *("cancel", "fail", "busy", "break", "stay"),
    }


def test_long_jobs_have_at_least_twenty_steps() -> None:
    jobs = make_plan(OPTIONS).jobs
    assert all(len(job.script.words) >= 20 for job in jobs if job.kind == "long")


def test_only_a_few_jobs_wait_for_good() -> None:
    plan = make_plan(replace(OPTIONS, jobs=2000))
    assert plan.staying == MOST_STAYING


def test_a_lone_worker_is_never_left_down() -> None:
    plan = make_plan(replace(OPTIONS, workers=1))
    assert {strike.down_s for strike in plan.strikes if strike.deed == "kill"} == {0.0}


def test_some_workers_stay_down_for_longer_than_the_lease() -> None:
    kills = [strike for strike in make_plan(OPTIONS).strikes if strike.deed == "kill"]
    long = [strike for strike in kills if strike.down_s]
    assert 0 < len(long) < len(kills)
    assert all(strike.down_s > OPTIONS.lease_s for strike in long)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"jobs": 0}, "jobs=0: must be at least 1"),
        ({"kills": -1}, "kills=-1: must be at least 0"),
        ({"in_flight": 8, "pool": "prefork"}, "in_flight=8: only with pool='threads'"),
        ({"lease_s": 0.5}, "lease_s=0.5: must be at least 1 second"),
        ({"deadline_s": 0}, "deadline_s=0: must be above 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        replace(OPTIONS, **wrong)
