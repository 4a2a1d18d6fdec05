"""Keys that are missing, left over or not insisted upon."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from api_client.survey import KeysInUse
from api_client.workers import WorkerInfo
from worker.doctor.encryption import KeyFacts, check
from worker.doctor.findings import Finding

KEYS, REQUIRED = "STEPKEEPER_ENCRYPTION_KEYS", "STEPKEEPER_ENCRYPTION_REQUIRED"
FIRST, OLD, OTHER = "aaaaaaaa", "bbbbbbbb", "cccccccc"


def used(*names: str, complete: bool = True) -> KeysInUse:
    """A job for each of these keys."""
    examples = {name: f"job-{name or 'clear'}" for name in names}
    return KeysInUse(Counter(names), examples, complete)


def worker(*keys: str) -> WorkerInfo:
    """A worker with these keys."""
    return WorkerInfo(name="w1@host", keys=keys)


def found(**changed: Any) -> list[Finding]:
    """What is found where all have one key and insist on it, with these faults."""
    good: dict[str, Any] = {
        "here": (FIRST,),
        "required": True,
        "used": used(FIRST),
        "workers": [worker(FIRST)],
    }
    return [*check(KeyFacts(**{**good, **changed}))]


def test_where_all_have_the_key_nothing_is_found() -> None:
    assert found() == []


def test_without_encryption_nothing_is_found() -> None:
    assert found(here=(), required=False, used=used(""), workers=[worker()]) == []


@pytest.mark.parametrize(
    ("fault", "setting", "level", "words"),
    [
        ({"used": used(FIRST, OTHER), "workers": []}, KEYS, "error", OTHER),
        ({"here": (), "required": False, "writes": False, "workers": []}, KEYS, "warning", FIRST),
        ({"here": (FIRST, OLD)}, KEYS, "advice", OLD),
        ({"workers": [worker()]}, KEYS, "error", "w1@host has not the key aaaaaaaa"),
        ({"workers": [worker(OLD)], "used": used(), "here": (FIRST, OLD)}, KEYS, "error", FIRST),
        ({"used": used(FIRST, "")}, REQUIRED, "error", "job job-clear is in the clear"),
        ({"required": False}, REQUIRED, "advice", "replace an encrypted text"),
    ],
)
def test_a_fault_is_found(fault: dict[str, Any], setting: str, level: str, words: str) -> None:
    (finding,) = found(**fault)
    assert (finding.area, finding.setting, finding.level) == ("encryption", setting, level)
    assert words in finding.what


def test_a_worker_that_encrypts_with_a_key_of_its_own_is_found_at_the_others() -> None:
    alone = WorkerInfo(name="w2@host", keys=(OTHER, FIRST))
    (finding,) = found(workers=[worker(FIRST), alone])
    assert finding.what.startswith(f"worker w1@host has not the key {OTHER}")


def test_a_worker_that_does_not_say_is_not_accused() -> None:
    assert found(workers=[WorkerInfo(name="older@host")]) == []


def test_of_a_part_of_the_jobs_nothing_is_said_of_keys_that_it_does_not_need() -> None:
    assert found(here=(FIRST, OLD), used=used(FIRST, complete=False)) == []
    assert found(here=(FIRST, OLD), used=used()) == []


def test_before_it_is_insisted_upon_everything_is_to_be_encrypted() -> None:
    (finding,) = found(required=False, used=used(FIRST, ""))
    assert finding.fix.startswith("stepkeeper rekey, then ")
