"""What a Redis can say that would harm jobs, and that a test cannot make a real one say."""

from __future__ import annotations

from typing import Any

import pytest

from worker.doctor.findings import Finding
from worker.doctor.server import ServerFacts, check
from worker.settings import Settings

GOOD_INFO: dict[str, Any] = {
    "redis_version": "7.4.1",
    "aof_enabled": 1,
    "role": "master",
    "used_memory": 10,
    "total_system_memory": 100,
}
GOOD_CONFIG = {"appendfsync": "always", "maxmemory-policy": "noeviction"}


def found(info: dict[str, Any] | None = None, **facts: Any) -> list[Finding]:
    """What is found at a good server with these faults."""
    given = {"config": GOOD_CONFIG, **facts}
    return [*check(ServerFacts(info={**GOOD_INFO, **(info or {})}, **given), Settings())]


def test_at_a_good_server_nothing_is_found() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("fault", "setting", "level"),
    [
        ({"info": {"redis_version": "6.2.14"}}, "redis-server", "error"),
        ({"info": {"redis_version": "5.0"}}, "redis-server", "error"),
        ({"info": {"cluster_enabled": 1}}, "cluster-enabled", "error"),
        ({"info": {"aof_last_write_status": "err"}}, "dir", "error"),
        ({"info": {"used_memory": 85}}, "maxmemory", "warning"),
        ({"info": {"used_memory": 97}}, "maxmemory", "error"),
        ({"ping_ms": 50.0}, "STEPKEEPER_REDIS_URL", "warning"),
        ({"ping_ms": 500.0}, "STEPKEEPER_REDIS_URL", "error"),
        ({"skew_s": 7.0}, "NTP", "warning"),
        ({"skew_s": -7.0}, "NTP", "warning"),
    ],
)
def test_a_fault_is_found_with_the_setting_to_change(
    fault: dict[str, Any], setting: str, level: str
) -> None:
    (finding,) = found(**fault)
    assert (finding.setting, finding.level, finding.area) == (setting, level, "redis")
    assert finding.what
    assert finding.fix


def test_valkeys_own_version_counts() -> None:
    assert found({"redis_version": "7.2.4", "valkey_version": "9.1.2"}) == []


def test_a_clock_that_is_behind_is_said_to_be() -> None:
    assert "7.0 s behind ours" in found(skew_s=-7.0)[0].what
    assert "7.0 s ahead of ours" in found(skew_s=7.0)[0].what


def test_what_may_not_be_asked_is_no_fault_of_its_own() -> None:
    findings = [*check(ServerFacts(blind=["CONFIG GET", "INFO"]), Settings())]
    assert [f.setting for f in findings] == ["ACL SETUSER", "ACL SETUSER"]
    assert {f.level for f in findings} == {"warning"}
