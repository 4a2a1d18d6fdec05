"""``tenants``, and what it does to the store."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.errors import BacklogFull, InvalidInput
from api_client.tenants import TenantPolicy
from tests.unit.cli.conftest import Desk
from worker.cli import tenants
from worker.cli.submitting import submit
from worker.store.base import Claimed


def test_a_policy_is_changed_field_by_field_and_forgotten(desk: Desk) -> None:
    said = desk.run(tenants.set_policy, "acme", weight=3.0, backlog=5000)
    assert said.out == "tenant acme: weight 3, at most 5,000 jobs that wait\n"
    said = desk.run(tenants.set_policy, "acme", concurrency=10, backlog=0)
    assert said.out == "tenant acme: weight 3, at most 10 jobs at once\n"
    assert desk.store.policies() == {"acme": TenantPolicy(weight=3, concurrency=10)}
    assert desk.run(tenants.unset_policy, "acme").out == "tenant acme: its policy is forgotten\n"
    assert desk.run(tenants.unset_policy, "acme").out == "tenant acme: it has no policy\n"
    assert desk.store.policies() == {}


def test_the_list_shows_shares_and_where_jobs_stand(desk: Desk) -> None:
    assert desk.run(tenants.list_tenants).out == "no tenant has jobs or a policy\n"
    desk.run(tenants.set_policy, "*", concurrency=2)
    desk.run(tenants.set_policy, None, True, backlog=100_000)
    for number in range(4):
        desk.job(f"a{number}", tenant="acme")
    claimed = desk.store.claim("a0", owner="w/b/1/", nonce="n", lease_ms=60_000, max_tries=5)
    assert isinstance(claimed, Claimed)
    lines = desk.run(tenants.list_tenants).out.splitlines()
    assert lines[0].split() == [
        *("tenant", "weight", "at", "once", "backlog"),
        *("running", "ready", "waiting", "paused", "steps"),
    ]
    assert lines[-3].split() == ["acme", "1", "2", "1", "3", "0", "0", "0"]
    assert lines[-2].split() == ["*", "1", "2"]
    assert lines[-1].split() == ["(all)", "1", "100,000"]
    [found] = desk.run(tenants.list_tenants, json=True).value["tenants"]
    assert (found["name"], found["running"], found["ready"]) == ("acme", 1, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "acme", "weight": 0.0}, "weight"),
        ({"name": "acme", "weight": float("nan")}, "weight"),
        ({"name": "acme", "concurrency": -1}, "concurrency"),
        ({"name": "x" * 201, "weight": 1.0}, "200"),
        ({}, "give the name of a tenant"),
        ({"name": "acme", "everybody": True, "backlog": 1}, "give the name of a tenant"),
        ({"everybody": True, "weight": 2.0}, "backlog cap only"),
    ],
)
def test_what_makes_no_sense_is_refused(desk: Desk, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        desk.run(tenants.set_policy, **arguments)
    assert desk.store.policies() == {}


def test_a_backlog_refuses_a_submission_and_says_what_to_do(desk: Desk) -> None:
    desk.run(tenants.set_policy, "acme", backlog=1)
    desk.run(submit, "shop", "first", tenant="acme")
    with pytest.raises(BacklogFull, match=r"stepkeeper tenants set 'acme' --backlog N"):
        desk.run(submit, "shop", "second", tenant="acme")


def test_a_priority_is_a_class_or_a_number(desk: Desk) -> None:
    said = desk.run(submit, "shop", "x", priority="high")
    assert desk.store.read(said.out.strip()).spec.priority == "high"
    said = desk.run(submit, "shop", "x", priority="9")
    spec = desk.store.read(said.out.strip()).spec
    assert (spec.priority, spec.message["priority"]) == ("", 9)
    with pytest.raises(InvalidInput, match=r"priority.*'urgent'"):
        desk.run(submit, "shop", "x", priority="urgent")
