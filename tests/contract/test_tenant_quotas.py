"""Bytes that are stored for a tenant: counted to the last, and refused beyond the quota."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api_client.contract import JobSpec, JobStatus, Outcome
from api_client.errors import StorageFull
from api_client.sizes import sizes
from tests.contract.worlds import SECOND, World
from worker.state import RunState
from worker.store.base import CheckpointStore, Claimed, Progress, Settlement, Ticket

QUOTA = 10_000


@pytest.fixture(autouse=True)
def _quota(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("STEPKEEPER_TENANT_QUOTA_BYTES", str(QUOTA))
    sizes.cache_clear()
    yield
    sizes.cache_clear()


def spec(job_id: str, tenant: str = "acme", size: int = 10, **fields: str) -> JobSpec:
    return JobSpec(job_id=job_id, agent="a", input="x" * size, tenant=tenant, **fields)


def end(store: CheckpointStore, job_id: str) -> None:
    claimed = store.claim(job_id, owner="o/", nonce=f"n-{job_id}", lease_ms=9999, max_tries=3)
    assert isinstance(claimed, Claimed)
    store.settle(
        Ticket(job_id, claimed.epoch, 1),
        Progress(RunState().dump(), "finished"),
        Settlement(JobStatus.SUCCEEDED, Outcome(ok=True, value=1)),
    )
    store.published(job_id)


def test_a_tenant_over_its_quota_is_refused_and_others_are_not(store: CheckpointStore) -> None:
    store.create(spec("one", size=QUOTA))
    with pytest.raises(StorageFull) as caught:
        store.create(spec("two"))
    text = str(caught.value)
    assert text.startswith("tenant 'acme': 10,0")
    assert "at most 10,000 may be (STEPKEEPER_TENANT_QUOTA_BYTES)" in text
    store.create(spec("three", tenant="other"))
    store.create(spec("four", tenant=""))
    assert store.count(JobStatus.QUEUED) == 3


def test_an_accepted_job_may_be_submitted_again_and_have_sub_jobs(store: CheckpointStore) -> None:
    store.create(spec("one", size=QUOTA))
    assert not store.create(spec("one", size=QUOTA)).new
    assert store.create(spec("sub", parent="one")).new


def test_what_a_job_stores_counts_once_however_often_it_is_told(store: CheckpointStore) -> None:
    one = spec("one")
    store.create(one)
    for size in (4000, 9000, 9000, QUOTA):
        store.hold(one, size)
    with pytest.raises(StorageFull):
        store.create(spec("two"))
    store.hold(one, 10)
    assert store.create(spec("two")).new


def test_a_forgotten_job_gives_its_bytes_back(world: World) -> None:
    store = world.store
    store.create(spec("one", size=QUOTA).model_copy(update={"retention_s": 60}))
    end(store, "one")
    with pytest.raises(StorageFull):
        store.create(spec("two"))
    world.advance(61 * SECOND)
    store.sweep(limit=9, grace_ms=1, cap_ms=1)
    assert store.create(spec("two")).new


def test_nothing_is_left_of_the_count(world: World) -> None:
    store = world.store
    store.create(spec("one").model_copy(update={"retention_s": 60}))
    end(store, "one")
    world.advance(61 * SECOND)
    store.sweep(limit=9, grace_ms=1, cap_ms=1)
    assert [name for name in world.left_behind() if "held" in name] == []


def test_without_a_quota_nothing_is_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPKEEPER_TENANT_QUOTA_BYTES", "0")
    sizes.cache_clear()
    one = spec("one", size=QUOTA)
    world.store.create(one)
    world.store.hold(one, 2 * QUOTA)
    assert [name for name in world.left_behind() if "held" in name] == []
    assert world.store.create(spec("two")).new
