"""Settings of this process."""

from __future__ import annotations

import pytest

from worker.doctor.environment import check, check_agents
from worker.settings import Settings


def settings(**changed: object) -> list[str]:
    """Names of the settings that are found at fault."""
    return [finding.setting for finding in check({}, Settings.from_env(**changed))]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("STEPKEEPER_LEASE", "STEPKEEPER_LEASE_S"),
        ("STEPKEEPER_REDIS_URI", "STEPKEEPER_REDIS_URL"),
        ("STEPKEEPER_CONCURENCY", "STEPKEEPER_CONCURRENCY"),
    ],
)
def test_a_slip_in_a_name_is_found(name: str, meant: str) -> None:
    (finding,) = check({name: "1"}, Settings())
    assert (finding.setting, finding.fix) == (name, f"did you mean {meant}?")


@pytest.mark.parametrize(
    "name", ["STEPKEEPER_LEASE_S", "STEPKEEPER_SHOP_DB", "STEPKEEPER_WEB_SECRET", "LEASE_S"]
)
def test_other_names_are_left_alone(name: str) -> None:
    assert [*check({name: "1"}, Settings())] == []


def test_times_that_do_not_fit_together() -> None:
    assert settings() == []
    assert settings(sweep_s=20, lease_s=5) == ["STEPKEEPER_SWEEP_S"]
    assert settings(lease_s=600) == ["STEPKEEPER_LEASE_S"]


def test_agents_that_cannot_be_loaded() -> None:
    assert [*check_agents(Settings(agents=("worker.examples.counting",)))] == []
    (finding,) = check_agents(Settings(agents=("no.such.module",)))
    assert (finding.setting, finding.level) == ("STEPKEEPER_AGENTS", "error")
