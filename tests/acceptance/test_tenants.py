"""Tenants take turns on real workers (H5): nobody's backlog holds up anybody else."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from celery import chain

from api_client.errors import BacklogFull
from api_client.tenants import Tenant, TenantPolicy
from tests.support.lab import Lab
from tests.support.workers import eventually


def first_calls(lab: Lab, *tags: str) -> list[str]:
    """The tags of jobs in the order of their first model calls."""
    order = [entry["tag"] for entry in lab.ledger.entries("model", step=1)]
    return [tag for tag in order if not tags or tag in tags]


def submit_many(lab: Lab, tenant: str, count: int, words: str = "look") -> None:
    """Many at once: each of them is written to disk before the next one of its thread begins."""

    def submit(number: int) -> str:
        return lab.submit(f"{words} @{tenant}{number}", tenant=tenant)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(submit, range(count)))


def leased_until(lab: Lab, job_id: str, at: int) -> bool:
    return lab.lease(job_id) >= at


def standing(lab: Lab, name: str) -> Tenant:
    return next(tenant for tenant in lab.store.tenants() if tenant.name == name)


def queued(lab: Lab) -> int:
    """Messages in Celery's queue."""
    length: Any = lab.redis.llen("celery")
    return int(length)


def test_h5_one_job_passes_two_thousand_of_another_tenant(lab: Lab) -> None:
    submit_many(lab, "acme", 2000)
    assert queued(lab) == 2, "the rest waits in the store"
    with lab.shut("model-acme30-1"):
        lab.worker(concurrency=1)
        lab.wait_gate("model-acme30-1")
        before = len(first_calls(lab))
        lab.submit("look @bolt", tenant="bolt")
    lab.ledger.wait("model", 1, tag="bolt")
    order = first_calls(lab)
    assert order.index("bolt") - before <= 3, order[before:]
    assert queued(lab) <= 3


def test_h5_steps_are_shared_by_weight(lab: Lab) -> None:
    lab.store.set_policy("acme", TenantPolicy(weight=3))
    submit_many(lab, "acme", 120, "look put")
    submit_many(lab, "bolt", 120, "look put")
    lab.worker(concurrency=2)
    made = lab.ledger.wait("model", 300)
    by = Counter(entry["tag"].rstrip("0123456789") for entry in made[:300])
    assert by["acme"] / by["bolt"] == pytest.approx(3, rel=0.1)
    steps = standing(lab, "acme").steps / standing(lab, "bolt").steps
    assert steps == pytest.approx(3, rel=0.1)


def test_h5_bare_messages_of_one_tenant_do_not_hold_up_another(lab: Lab) -> None:
    for number in range(12):
        lab.send(f"look @acme{number}", kwargs={"tenant": "acme"})
    lab.hold("model-acme3-1")
    lab.worker(concurrency=1)
    lab.wait_gate("model-acme3-1")
    lab.submit("look @bolt", tenant="bolt")
    lab.open("model-acme3-1")
    lab.ledger.wait("model", 1, tag="bolt")
    assert first_calls(lab).index("bolt") <= 7
    lab.ledger.wait("model", 13, step=1)
    assert sorted(first_calls(lab)) == sorted({f"acme{n}" for n in range(12)} | {"bolt"})


def test_a_long_job_gives_way_while_another_tenant_waits(lab: Lab) -> None:
    lab.hold("model-acme-4")
    lab.worker(concurrency=1, env={"STEPKEEPER_LEASE_S": "1"})
    long_job = lab.submit("look " * 30 + "@acme", tenant="acme")
    lab.wait_gate("model-acme-4")
    other = lab.submit("look @bolt", tenant="bolt")
    for _ in range(2):  # the second renewal has begun after the job was there
        renewed = lab.lease(long_job) + 1
        eventually(partial(leased_until, lab, long_job, renewed), "the lease is renewed")
    lab.open("model-acme-4")
    assert lab.client.result(other) == "look 1"
    view = lab.wait_status(long_job, "succeeded")
    assert view.steps == 31
    assert lab.events(long_job, "released"), "it was handed over"
    done = lab.events(long_job)[-1].at
    assert lab.events(other)[-1].at < done


def test_the_slots_of_a_killed_worker_come_back(lab: Lab) -> None:
    lab.store.set_policy("acme", TenantPolicy(concurrency=1))
    lab.hold("model-acme0-1")
    env = {"STEPKEEPER_LEASE_S": "1"}
    worker = lab.worker("w1@test", env=env)
    jobs = [lab.submit(f"look @acme{number}", tenant="acme") for number in range(4)]
    lab.wait_gate("model-acme0-1")
    assert lab.client.result(lab.submit("look @bolt", tenant="bolt")) == "look 1"
    assert first_calls(lab) == ["acme0", "bolt"], "one at a time, though slots are idle"
    worker.kill()
    lab.open("model-acme0-1")
    lab.worker("w2@test", env=env)
    for job_id in jobs:
        assert lab.client.result(job_id) == "look 1"
    eventually(lambda: standing(lab, "acme").running == 0, "nothing is counted any more")
    claimed = sorted(event.at for job_id in jobs for event in lab.events(job_id, "claimed"))
    ended = sorted(event.at for job_id in jobs for event in lab.events(job_id, "finished"))
    assert all(end <= claim for end, claim in zip(ended, claimed[2:], strict=False))


def test_a_backlog_over_its_cap_is_refused_on_every_way_in(lab: Lab) -> None:
    lab.store.set_policy("acme", TenantPolicy(backlog=1))
    lab.submit("look", tenant="acme", delay_s=3600)
    words = "tenant 'acme': 1 jobs wait already, and at most 1 may"
    with pytest.raises(BacklogFull, match=words):
        lab.submit("look", tenant="acme")
    bare = lab.send("look", kwargs={"tenant": "acme"})
    lab.worker(concurrency=1)
    with pytest.raises(Exception, match=words) as refused:
        bare.get(timeout=30)
    assert type(refused.value).__name__ == "BacklogFull"
    assert lab.client.result(lab.submit("look")) == "look 1", "others are not concerned"


def test_a_full_agent_is_refused_on_every_way_in(lab: Lab) -> None:
    lab.client.set_backlog(1, agent="plan")
    late = lab.submit("look", delay_s=3600)
    words = "agent 'plan': 1 jobs wait already, and at most 1 may"
    with pytest.raises(BacklogFull, match=words):
        lab.submit("look")
    bare = lab.send("look")
    passed_on: Any = chain(
        lab.plain.signature("lab.note", args=["look"], kwargs={"where": "before"}),
        lab.plain.signature("agent.plan"),
        lab.plain.signature("lab.note", kwargs={"where": "behind"}),
    ).apply_async()
    inside = lab.plain.send_task("lab.submit", args=["look"])
    lab.worker(concurrency=1)
    for result in (bare, passed_on.parent, inside):
        with pytest.raises(Exception, match=words) as refused:
            result.get(timeout=30)
        assert type(refused.value).__name__ == "BacklogFull"
    assert [entry["where"] for entry in lab.ledger.entries("task")] == ["before"]
    lab.client.cancel(late)
    assert lab.client.result(lab.submit("look")) == "look 1"


def test_a_worker_tells_of_the_caps_in_its_agents_code(lab: Lab) -> None:
    agents = "tests.support.capped_agents"
    lab.worker(agents=agents, concurrency=1)
    [known] = [b for b in lab.client.backlogs() if b.kind == "agent" and b.name == "capped"]
    assert (known.cap, known.set_by) == (3, "code")
    for _ in range(3):
        lab.client.submit("capped", "go", delay_s=3600)
    with pytest.raises(BacklogFull, match="agent 'capped': 3 jobs wait already"):
        lab.client.submit("capped", "go")
