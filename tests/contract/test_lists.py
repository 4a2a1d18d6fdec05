"""Lists of jobs by status: filters, and pages that are read while jobs move. On every store."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from api_client.contract import Answer, JobStatus
from api_client.errors import InvalidInput
from api_client.lists import EVERY, JobFilter, ListName
from tests.contract.acts import (
    BROKEN,
    DONE,
    QUESTION,
    bring_to,
    claim,
    publish,
    settle,
    submit,
    take,
)
from tests.contract.worlds import MINUTE, SECOND, MemoryWorld, World

MADE: dict[str, dict[str, Any]] = {
    "a": {"agent": "shop", "tenant": "north", "labels": ("sales",)},
    "b": {"agent": "shop"},
    "c": {"agent": "docs", "labels": ("sales", "leads")},
    "d": {"agent": "docs", "tenant": "north"},
}
FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["a", "b", "c", "d"]),
    ({"agent": "shop"}, ["a", "b"]),
    ({"agent": "nobody"}, []),
    ({"tenant": "north"}, ["a", "d"]),
    ({"tenant": ""}, ["b", "c"]),
    ({"label": "sales"}, ["a", "c"]),
    ({"label": ""}, ["b", "d"]),
    ({"label": "sales", "agent": "docs"}, ["c"]),
    ({"visible_to": ("leads",)}, ["b", "c", "d"]),
    ({"visible_to": ("leads",), "tenant": "north"}, ["d"]),
    ({"visible_to": ()}, ["b", "d"]),
]


def ids(world: World, name: ListName, chosen: JobFilter = EVERY, **how: Any) -> list[str]:
    """All pages, one after the other."""
    found, cursor = [], ""
    while True:
        page = world.store.jobs(name, chosen, cursor=cursor, **how)
        assert len(page) <= how.get("limit", 100)
        found += [view.job_id for view in page]
        cursor = page.next_cursor
        if not cursor:
            return found


def fill(world: World, status: JobStatus) -> None:
    """Four jobs in one status, a second apart."""
    for job_id, fields in MADE.items():
        submit(world, job_id, delay_ms=MINUTE if status is JobStatus.WAITING else 0, **fields)
        lead(world, job_id, status)
        world.advance(SECOND)


def tick(world: World) -> None:
    """Let a millisecond pass, at least. A cursor holds a time: the server's must not be moved."""
    if isinstance(world, MemoryWorld):
        world.advance(SECOND)
    else:
        time.sleep(0.002)


def lead(world: World, job_id: str, status: JobStatus) -> None:
    """From the queue into a status."""
    if status in (JobStatus.QUEUED, JobStatus.WAITING):
        return
    if status is JobStatus.CANCELLED:
        world.store.cancel(job_id)
        return
    held = take(world, job_id)
    pause = QUESTION.model_copy(update={"labels": MADE[job_id].get("labels", ())})
    ends: dict[JobStatus, Any] = {
        JobStatus.PAUSED: pause,
        JobStatus.SUCCEEDED: DONE,
        JobStatus.FAILED: BROKEN,
    }
    if status in ends:
        settle(world, held, 1, status, ends[status])


@pytest.mark.parametrize("status", list(JobStatus))
def test_filters_and_pages_of_every_status(world: World, status: JobStatus) -> None:
    fill(world, status)
    for wanted, expected in FILTERS:
        chosen = JobFilter.model_validate(wanted)
        for limit in (1, 3, 100):
            assert ids(world, status, chosen, limit=limit, newest_first=False) == expected, wanted
            assert ids(world, status, chosen, limit=limit) == expected[::-1], wanted
        if len(wanted) < 2:
            assert world.store.jobs(status, chosen).total == len(expected)
    for other in set(JobStatus) - {status}:
        for wanted, _ in FILTERS:
            assert ids(world, other, JobFilter.model_validate(wanted)) == []


def test_the_quarantine_is_a_list_of_its_own(world: World) -> None:
    for job_id in ("a", "b"):
        submit(world, job_id, **MADE[job_id])
        take(world, job_id, max_tries=1)
    bring_to(world, JobStatus.FAILED, "broken")
    world.advance(2 * MINUTE)
    for job_id in ("a", "b"):
        claim(world, job_id, max_tries=1)
        world.advance(SECOND)
    assert ids(world, "poison", newest_first=False) == ["a", "b"]
    assert ids(world, "poison", JobFilter(tenant="north")) == ["a"]
    assert sorted(ids(world, JobStatus.FAILED)) == ["a", "b", "broken"]


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("chosen", [EVERY, JobFilter(agent="shop")], ids=["all", "one agent"])
def test_pages_read_while_jobs_move_skip_none_and_double_none(
    world: World, newest_first: bool, chosen: JobFilter
) -> None:
    """Some stay, some leave, some leave and come back, some come."""
    dice = random.Random(7)
    names = [f"j{number:02}" for number in range(24)]
    for name in names:
        submit(world, name, agent="shop")
        world.advance(SECOND)
    movers = dice.sample(names, 12)
    seen: list[str] = []
    cursor, step = "", 0
    while True:
        page = world.store.jobs(
            JobStatus.QUEUED, chosen, newest_first=newest_first, limit=3, cursor=cursor
        )
        seen += [view.job_id for view in page]
        cursor = page.next_cursor
        if not cursor:
            break
        tick(world)
        submit(world, f"new{step}", agent="shop")
        for mover in movers[2 * step : 2 * step + 2]:
            held = take(world, mover)
            if mover in movers[::2]:
                settle(world, held, 1, JobStatus.QUEUED)
        tick(world)
        step += 1
    assert step > 4
    assert len(seen) == len(set(seen))
    assert set(names) - set(movers) <= set(seen)
    assert not any(name.startswith("new") for name in seen)


def test_an_answered_pause_stands_in_the_queue_under_the_labels_of_the_job(world: World) -> None:
    submit(world, "a", labels=("sales",))
    pause = QUESTION.model_copy(update={"labels": ("leads",)})
    settle(world, take(world, "a"), 1, JobStatus.PAUSED, pause)
    assert ids(world, JobStatus.PAUSED, JobFilter(label="leads")) == ["a"]
    world.store.signal("a", "p1", Answer(value=1), "s1")
    assert ids(world, JobStatus.PAUSED, JobFilter(label="leads")) == []
    assert ids(world, JobStatus.QUEUED, JobFilter(label="sales")) == ["a"]


@pytest.mark.parametrize("again", [False, True], ids=["expired", "its id used again"])
def test_an_expired_job_stands_in_no_list(world: World, again: bool) -> None:
    submit(world, "a", retention_s=60, **MADE["a"])
    settle(world, take(world, "a"), 1, JobStatus.SUCCEEDED, DONE)
    publish(world, "a")
    world.advance(2 * MINUTE)
    if again:
        submit(world, "a", agent="docs")
        assert ids(world, JobStatus.QUEUED, JobFilter(agent="docs")) == ["a"]
        world.store.cancel("a")
    else:
        world.store.sweep(limit=10, grace_ms=1, cap_ms=1)
        assert [name for name in world.left_behind() if ":is:" in name] == []
    for wanted, _ in FILTERS:
        page = world.store.jobs(JobStatus.SUCCEEDED, JobFilter.model_validate(wanted))
        assert (list(page), page.total) == ([], 0)


def test_a_cursor_belongs_to_its_list_and_order(world: World) -> None:
    fill(world, JobStatus.QUEUED)
    cursor = world.store.jobs(JobStatus.QUEUED, limit=1).next_cursor
    with pytest.raises(InvalidInput, match="belongs to 'queued' in the order 'newest'"):
        world.store.jobs(JobStatus.RUNNING, limit=1, cursor=cursor)
    with pytest.raises(InvalidInput, match="not to 'queued' in the order 'oldest'"):
        world.store.jobs(JobStatus.QUEUED, limit=1, cursor=cursor, newest_first=False)
    with pytest.raises(InvalidInput, match="queued limit 0"):
        world.store.jobs(JobStatus.QUEUED, limit=0)
    for text in ("x", "eA==", "W10=", "é", "bnVsbA==", "WyJxdWV1ZWQiLCJuZXdlc3QiLDFlOTk5LCIiLDFd"):
        with pytest.raises(InvalidInput, match="cursor"):
            world.store.jobs(JobStatus.QUEUED, cursor=text)
