"""Accepting and reading jobs, on every store."""

from __future__ import annotations

from itertools import pairwise

import pytest

from api_client.contract import AgentInfo, JobSpec, JobStatus
from api_client.errors import InvalidInput, JobNotFound
from tests.contract.acts import (
    DONE,
    JOB,
    QUESTION,
    bring_to,
    claim,
    commit,
    kinds,
    publish,
    settle,
    submit,
    take,
)
from tests.contract.worlds import MINUTE, SECOND, World
from worker.store.base import CheckpointStore, NotClaimed

GARBAGE = ["", "no such job", "a" * 129, "ungültig", "\ud800", "a\x00b", "a\nb", "{sk:0}"]


def test_a_new_job_is_queued_and_due_for_a_first_hint(world: World) -> None:
    spec = submit(world, metadata={"Käufer": "张三", "n": 1}, tenant="t", labels=("a", "b"))
    view = world.store.read(JOB)
    assert view.spec == spec
    assert view.status is JobStatus.QUEUED
    assert (view.epoch, view.tries, view.steps, view.active_ms) == (0, 0, 0, 0)
    assert (view.worker, view.due, view.pause, view.outcome) == (None, None, None, None)
    assert not view.cancel_requested
    assert not view.published
    due = world.due_in(JOB)
    assert due is not None
    assert 0 < due <= 5 * SECOND
    assert world.store.messages(JOB) == []
    assert kinds(world) == ["submitted"]


def test_the_same_id_again_returns_what_was_stored_first(world: World) -> None:
    first = submit(world, message={"link": [{"task": "x"}]}, retention_s=77)
    take(world)
    before = world.raw(JOB)
    again = world.store.create(JobSpec(job_id=JOB, agent="docs", input="other"), delay_ms=MINUTE)
    assert not again.new
    assert again.spec == first
    assert world.raw(JOB) == before


def test_a_delayed_job_waits_for_its_time(world: World) -> None:
    submit(world, delay_ms=10 * MINUTE)
    view = world.store.read(JOB)
    assert view.status is JobStatus.WAITING
    assert view.due == view.created + 10 * MINUTE
    refused = claim(world)
    assert isinstance(refused, NotClaimed)
    assert (refused.why, refused.detail) == ("not_due", str(view.due))
    world.advance(10 * MINUTE)
    take(world)
    assert world.store.read(JOB).due is None


@pytest.mark.parametrize("job_id", ["unknown", *GARBAGE])
def test_a_job_that_is_not_there(store: CheckpointStore, job_id: str) -> None:
    for ask in (store.read, store.cancel):
        with pytest.raises(JobNotFound, match="no job") as caught:
            ask(job_id)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300
    assert store.messages(job_id) == []
    assert store.events(job_id) == []
    refused = store.claim(job_id, owner="w/", nonce="n", lease_ms=MINUTE, max_tries=3)
    assert refused == NotClaimed("missing")


def test_jobs_are_listed_by_the_time_they_entered_their_status(world: World) -> None:
    ids = [f"job-{n}" for n in (5, 3, 9, 1, 7)]
    for job_id in ids:
        submit(world, job_id)
        world.advance(MINUTE)
    assert [v.job_id for v in world.store.list_jobs(JobStatus.QUEUED)] == ids
    newest = world.store.list_jobs(JobStatus.QUEUED, limit=2, newest_first=True)
    assert [v.job_id for v in newest] == ["job-7", "job-1"]
    assert [v.job_id for v in world.store.list_jobs(JobStatus.QUEUED, limit=3)] == ids[:3]
    assert world.store.list_jobs(JobStatus.QUEUED, limit=0) == []
    assert world.store.list_jobs(JobStatus.RUNNING) == []
    assert world.store.count(JobStatus.QUEUED) == 5


def test_ended_jobs_are_listed_by_their_end_whatever_their_retention(world: World) -> None:
    for number, retention in enumerate((900_000, 3_600, 90_000, 7_200)):
        submit(world, f"job-{number}", retention_s=retention)
        settle(world, take(world, f"job-{number}"), 1, JobStatus.SUCCEEDED, DONE)
        world.advance(MINUTE)
    listed = world.store.list_jobs(JobStatus.SUCCEEDED)
    assert [view.job_id for view in listed] == ["job-0", "job-1", "job-2", "job-3"]
    for number in (2, 0):
        publish(world, f"job-{number}")
    listed = world.store.list_jobs(JobStatus.SUCCEEDED, newest_first=True, limit=3)
    assert [view.job_id for view in listed] == ["job-3", "job-2", "job-1"]


def test_a_takeover_is_no_new_status(world: World) -> None:
    """A job whose lease ran out is taken up again: it has been running all the time."""
    for job_id in ("job-1", "job-2"):
        submit(world, job_id)
        take(world, job_id)
        world.advance(MINUTE)
    take(world, "job-1")
    assert [v.job_id for v in world.store.list_jobs(JobStatus.RUNNING)] == ["job-1", "job-2"]


@pytest.mark.parametrize("status", list(JobStatus))
def test_a_job_stands_in_exactly_one_list(world: World, status: JobStatus) -> None:
    spec = bring_to(world, status)
    counts = {other: world.store.count(other) for other in JobStatus}
    assert counts == {other: int(other is status) for other in JobStatus}
    for other in JobStatus:
        found = [view.spec for view in world.store.list_jobs(other)]
        assert found == ([spec] if other is status else [])
    view = world.store.read(JOB)
    assert view.status is status
    assert (view.pause is not None) == (status is JobStatus.PAUSED)
    assert (view.outcome is not None) == status.ended


def test_a_view_tells_the_run_states_figures(world: World) -> None:
    submit(world)
    held = take(world, owner="w7/boot/1/")
    commit(world, held, 1, "Größe", "大小", "\x00😀\ud800")
    view = world.store.read(JOB)
    assert (view.worker, view.steps, view.epoch, view.tries) == ("w7/boot/1/", 1, 1, 1)
    texts = [m["content"] for m in world.store.messages(JOB)]
    assert texts == ["Größe", "大小", "\x00😀\ud800"]
    assert [m["content"] for m in world.store.messages(JOB, start=2)] == texts[2:]
    assert world.store.messages(JOB, start=3) == []


def test_a_pause_is_read_as_it_was_made(world: World) -> None:
    bring_to(world, JobStatus.PAUSED)
    view = world.store.read(JOB)
    assert view.pause is not None
    assert view.pause.created >= view.created
    assert view.pause.model_copy(update={"created": 0}) == QUESTION


def test_agents_are_announced_by_name(world: World) -> None:
    assert list(world.store.agents()) == []
    world.store.announce([AgentInfo(name="shop", version="1"), AgentInfo(name="docs", queue="q")])
    world.store.announce([AgentInfo(name="shop", version="2", description="verkauft 茶")])
    world.store.announce([])
    docs, shop = world.store.agents()
    assert (docs.name, docs.queue) == ("docs", "q")
    assert (shop.name, shop.version, shop.description) == ("shop", "2", "verkauft 茶")
    assert docs.seen > 0
    assert shop.seen >= docs.seen


def test_the_trace_is_read_from_any_offset(world: World) -> None:
    bring_to(world, JobStatus.SUCCEEDED)
    events = world.store.events(JOB)
    assert [event.kind for event in events] == ["submitted", "claimed", "succeeded"]
    assert events[1].data == {"worker": "w1/boot/1/", "tries": 1, "was": "queued"}
    assert events[2].data == {"n": 1}
    assert world.store.events(JOB, after=events[0].id) == events[1:]
    assert world.store.events(JOB, after=events[-1].id) == []
    assert world.store.events(JOB, count=2) == events[:2]
    assert world.store.events(JOB, count=0) == []
    assert all(one.at <= other.at for one, other in pairwise(events))


@pytest.mark.parametrize("after", ["", "$", "x", "1-", "-1", "1-2-3", "1" * 30, "１"])
def test_what_is_no_offset_is_refused(store: CheckpointStore, world: World, after: str) -> None:
    submit(world)
    with pytest.raises(InvalidInput, match="trace offset"):
        store.events(JOB, after=after)
