"""What the build is made of is written down whole, and an audit says what it knows."""

from __future__ import annotations

import json

import pytest

from tests.support.audit import BROKEN, CLEAN, VULNERABLE, judge
from tests.support.materials import LOCK, bill


def test_every_pinned_package_stands_in_the_bill_with_its_hashes() -> None:
    lock = LOCK.read_text()
    found = json.loads(bill(lock))
    pinned = [
        line for line in lock.splitlines() if "==" in line and not line.startswith((" ", "#"))
    ]
    assert len(found["components"]) == len(pinned)
    assert all(each["hashes"] for each in found["components"])
    urls = {each["purl"] for each in found["components"]}
    assert any(url.startswith("pkg:pypi/celery@") for url in urls)


def package(*vulnerabilities: str) -> str:
    found = [{"id": each, "fix_versions": ["9.9"]} for each in vulnerabilities]
    return json.dumps({"dependencies": [{"name": "x", "version": "1", "vulns": found}]})


@pytest.mark.parametrize(
    ("output", "errors", "code", "words"),
    [
        (package(), "", CLEAN, "1 packages audited, 0 vulnerabilities"),
        (package("PYSEC-1"), "Found 1", VULNERABLE, "x 1: PYSEC-1, fixed in 9.9"),
        ("", "requests.exceptions.ConnectionError: Max retries", CLEAN, "NO AUDIT WAS MADE"),
        ("", "usage: pip-audit", BROKEN, "pip-audit failed: usage: pip-audit"),
        ("{}", "", BROKEN, "it said nothing"),
    ],
)
def test_an_audit_is_clean_only_if_it_was_made(
    output: str, errors: str, code: int, words: str
) -> None:
    found, told = judge(output, errors)
    assert (found, words in told) == (code, True), told


def test_what_could_not_be_audited_is_named() -> None:
    skipped = {"name": "y", "skip_reason": "not on the index"}
    audited = {"name": "x", "version": "1", "vulns": []}
    output = json.dumps({"dependencies": [skipped, audited]})
    assert judge(output, "")[1].splitlines()[0] == "not audited: y"
    nothing = json.dumps({"dependencies": [skipped]})
    assert judge(nothing, "") == (
        CLEAN,
        "NO AUDIT WAS MADE: the service knows none of 1 packages",
    )
