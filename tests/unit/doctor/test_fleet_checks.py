"""Workers, queues and agents."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from api_client.contract import AgentInfo
from api_client.survey import Survey
from worker.doctor.findings import Finding
from worker.doctor.fleet import FleetFacts, check

NOW = 1_700_000_000_000


def info(**changed: Any) -> AgentInfo:
    """An agent that was announced a moment ago."""
    given = {"name": "shop", "queue": "celery", "seen": NOW - 5_000, "release": "1.4.0"}
    return AgentInfo.model_validate({**given, **changed})


def found(**changed: Any) -> list[Finding]:
    """What is found in a good fleet with these faults."""
    good: dict[str, Any] = {"agents": [info()], "queues": {"w1@host": ["celery"]}}
    return [*check(FleetFacts(now_ms=NOW, release="1.4.0", **{**good, **changed}))]


def test_in_a_good_fleet_nothing_is_found() -> None:
    assert found() == []


def test_jobs_of_agents_that_are_there_or_that_wait_for_people_are_no_fault() -> None:
    jobs = Counter({("shop", "running"): 1, ("desk", "paused"): 1, ("desk", "queued"): 0})
    assert found(survey=Survey(jobs + Counter({("", "succeeded"): 9}))) == []


def test_workers_that_were_not_asked_are_not_missed() -> None:
    assert found(queues=None) == []


@pytest.mark.parametrize(
    ("fault", "setting", "level"),
    [
        ({"queues": {}}, "celery worker", "error"),
        ({"queues": None, "broker_error": "refused"}, "STEPKEEPER_BROKER_URL", "error"),
        ({"agents": []}, "STEPKEEPER_AGENTS", "error"),
        ({"agents": [info(seen=NOW - 600_000)]}, "STEPKEEPER_AGENTS", "warning"),
        ({"agents": [info(queue="agents")]}, "--queues", "error"),
        ({"agents": [info(release="1.3.0")]}, "stepkeeper", "warning"),
        ({"agents": [info(release="2.0.0")]}, "stepkeeper", "error"),
        ({"survey": Survey(overdue_s=95.0)}, "celery worker", "error"),
        ({"survey": Survey(Counter({("desk", "queued"): 2}))}, "STEPKEEPER_AGENTS", "error"),
        ({"survey": Survey(quarantined=2)}, "stepkeeper quarantine", "warning"),
    ],
)
def test_a_fault_is_found(fault: dict[str, Any], setting: str, level: str) -> None:
    (finding,) = found(**fault)
    assert (finding.setting, finding.level) == (setting, level)


@pytest.mark.parametrize(
    ("mine", "theirs", "level"),
    [("0.1.0", "0.1.3", "warning"), ("0.1.0", "0.2.0", "error"), ("1.0", "1.9", "warning")],
)
def test_versions_that_may_break_each_other(mine: str, theirs: str, level: str) -> None:
    facts = FleetFacts([info(release=theirs)], NOW, mine, {"w": ["celery"]})
    assert [finding.level for finding in check(facts)] == [level]


def test_the_version_of_a_worker_that_is_gone_does_not_count() -> None:
    old = info(release="0.9", seen=NOW - 9_000_000)
    assert [f.setting for f in found(agents=[info(), old])] == ["STEPKEEPER_AGENTS"]
