"""Tenants take turns: who is hinted, who waits, and who is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from api_client.contract import JobSpec, JobStatus
from api_client.errors import BacklogFull, InvalidInput
from api_client.tenants import EVERYBODY, Tenant, TenantPolicy
from tests.contract.acts import (
    DONE,
    QUESTION,
    answer,
    claim,
    hinted,
    settle,
    submit,
    sweep,
    take,
)
from tests.contract.worlds import MINUTE, SECOND, MemoryWorld, RedisWorld, World
from worker.store.base import (
    Claimed,
    NotClaimed,
    Progress,
    Settlement,
    Slots,
    Ticket,
    ToPublish,
)


@pytest.fixture(params=["memory", "redis"])
def plain(request: pytest.FixtureRequest) -> Iterator[World]:
    """A store in one partition: each partition takes turns of its own, and has its share."""
    if request.param == "memory":
        yield MemoryWorld()
        return
    found = RedisWorld(request.getfixturevalue("redis_url"))
    yield found
    found.close()


@pytest.fixture
def lane(plain: World) -> World:
    """The same, and a worker with one slot has the agent."""
    announce(plain)
    return plain


def announce(world: World, slots: int = 1, node: str = "w1", **agents: str) -> None:
    known = agents or {"shop": "celery"}
    queues = sorted(set(known.values()))
    world.store.announce_slots(Slots(node, slots, queues, known, 3 * MINUTE))


def put(world: World, job_id: str, tenant: str = "", **fields: Any) -> bool:
    """Accept a job; whether it is to be hinted."""
    given = {"job_id": job_id, "agent": "shop", "input": "buy", "tenant": tenant, **fields}
    return not world.store.create(JobSpec.model_validate(given)).held


def told(world: World) -> list[str]:
    """Ids of the jobs whose turn comes from now on, in their order."""
    found: list[str] = []
    world.store.on_turn = lambda spec: found.append(spec.job_id)
    return found


def end_slice(
    world: World, held: Claimed, status: JobStatus = JobStatus.SUCCEEDED, steps: int = 1
) -> None:
    payload: Any = {JobStatus.SUCCEEDED: DONE, JobStatus.PAUSED: QUESTION}.get(status)
    progress = Progress('{"s":1}', status.value)
    ticket = Ticket(held.spec.job_id, held.epoch, held.seq + 1)
    settlement = Settlement(status, payload, MINUTE, steps=steps)
    assert world.store.settle(ticket, progress, settlement) is status


def tenant(world: World, name: str) -> Tenant:
    return next(found for found in world.store.tenants() if found.name == name)


def test_a_window_grows_with_the_root_of_the_slots(lane: World) -> None:
    assert [put(lane, f"a{n}", "acme") for n in range(8)] == [True, True, *[False] * 6]
    announce(lane, slots=9)
    assert hinted(lane) == ["a2", "a3"]
    announce(lane, slots=16, node="w2")
    assert hinted(lane) == ["a4", "a5"]


def test_jobs_without_a_tenant_are_all_hinted(lane: World) -> None:
    assert all(put(lane, f"j{n}") for n in range(20))
    assert isinstance(claim(lane, "j19"), Claimed)


def test_a_claim_lets_the_next_one_come(lane: World) -> None:
    for number in range(5):
        put(lane, f"a{number}", "acme")
    turns = told(lane)
    take(lane, "a0")
    assert turns == ["a2"]
    take(lane, "a1")
    assert turns == ["a2", "a3"]


def test_one_job_passes_hundreds_of_another_tenant(lane: World) -> None:
    for number in range(300):
        put(lane, f"a{number:03}", "acme")
    queue = ["a000", "a001"]
    lane.store.on_turn = lambda spec: queue.append(spec.job_id)
    held = take(lane, queue.pop(0))
    assert not put(lane, "b", "bolt")
    before = 0
    while queue[0] != "b":
        end_slice(lane, held)
        held = take(lane, queue.pop(0))
        before += 1
    assert before <= 3


@pytest.mark.parametrize(
    ("first", "second", "sizes"), [(3, 1, (1, 1)), (3, 1, (7, 2)), (1, 4, (1, 5)), (1, 1, (1, 9))]
)
def test_steps_are_shared_by_weight(
    lane: World, first: int, second: int, sizes: tuple[int, int]
) -> None:
    lane.store.set_policy("a", TenantPolicy(weight=first))
    lane.store.set_policy("b", TenantPolicy(weight=second))
    names = [f"{name}{number}" for number in range(8) for name in "ab"]
    queue = [job_id for job_id in names if put(lane, job_id, job_id[0])]
    lane.store.on_turn = lambda spec: queue.append(spec.job_id)
    used: Counter[str] = Counter()
    size = dict(zip("ab", sizes, strict=True))
    for _ in range(250):
        held = take(lane, queue.pop(0))
        name = held.spec.tenant
        used[name] += size[name]
        end_slice(lane, held, JobStatus.QUEUED, size[name])
    assert used["a"] / used["b"] == pytest.approx(first / second, rel=0.1)
    assert tenant(lane, "a").steps == used["a"]


def test_who_was_idle_has_saved_nothing_up(lane: World) -> None:
    queue = [f"a{n}" for n in range(40) if put(lane, f"a{n}", "acme")]
    lane.store.on_turn = lambda spec: queue.append(spec.job_id)
    for _ in range(30):
        end_slice(lane, take(lane, queue.pop(0)))
    for number in range(10):
        put(lane, f"b{number}", "bolt")
    order = []
    for _ in range(12):
        order.append(queue[0][0])
        end_slice(lane, take(lane, queue.pop(0)))
    assert Counter(order[2:])["b"] == pytest.approx(5, abs=1)


def test_a_limit_of_jobs_at_once_counts_those_that_are_hinted(lane: World) -> None:
    announce(lane, slots=10)
    lane.store.set_policy("*", TenantPolicy(concurrency=2))
    assert [put(lane, f"a{n}", "acme") for n in range(4)] == [True, True, False, False]
    assert put(lane, "b", "bolt"), "another tenant has a limit of its own"
    turns = told(lane)
    held = take(lane, "a0")
    take(lane, "a1")
    assert turns == []
    assert (tenant(lane, "acme").running, tenant(lane, "acme").ready) == (2, 2)
    end_slice(lane, held, JobStatus.PAUSED)
    assert turns == ["a2"]
    assert tenant(lane, "acme").paused == 1


def test_a_higher_limit_holds_at_once(lane: World) -> None:
    announce(lane, slots=10)
    lane.store.set_policy("acme", TenantPolicy(concurrency=1))
    for number in range(4):
        put(lane, f"a{number}", "acme")
    assert hinted(lane) == []
    lane.store.set_policy("acme", TenantPolicy(concurrency=3))
    assert hinted(lane) == ["a1", "a2"]
    lane.store.set_policy("acme", None)
    assert hinted(lane) == ["a3"]


def test_a_limit_for_all_that_is_raised_lets_all_go_on(lane: World) -> None:
    announce(lane, slots=10)
    lane.store.set_policy("*", TenantPolicy(concurrency=1))
    for name in "ab":
        for number in range(3):
            put(lane, f"{name}{number}", name)
    assert hinted(lane) == []
    lane.store.set_policy("*", TenantPolicy(concurrency=2))
    assert hinted(lane) == ["a1", "b1"]


def test_the_slots_of_a_dead_worker_come_back_with_its_leases(lane: World) -> None:
    lane.store.set_policy("acme", TenantPolicy(concurrency=1))
    put(lane, "a0", "acme")
    put(lane, "a1", "acme")
    take(lane, "a0")
    lane.advance(2 * MINUTE)
    assert hinted(lane) == ["a0"], "the older one goes first, again"
    assert tenant(lane, "acme").running == 0
    assert take(lane, "a0").tries == 2
    lane.store.abandon("w1/")
    assert tenant(lane, "acme").running == 0


def test_the_order_within_a_tenant_is_by_priority_then_age(lane: World) -> None:
    put(lane, "a0", "acme")
    put(lane, "a1", "acme")
    for name, priority in (("low", "low"), ("plain", ""), ("normal", "normal"), ("high", "high")):
        lane.advance(10)
        put(lane, name, "acme", priority=priority)
    turns = told(lane)
    for job_id in ("a0", "a1", "high", "plain"):
        take(lane, job_id)
    assert turns == ["high", "plain", "normal", "low"]


def test_a_job_that_is_handed_over_waits_behind_others_of_its_rank_that_are_older(
    lane: World,
) -> None:
    for number in range(4):
        lane.advance(10)
        put(lane, f"a{number}", "acme")
    turns = told(lane)
    end_slice(lane, take(lane, "a0"), JobStatus.QUEUED)
    assert turns == ["a2"], "the window was full when the slice began"
    take(lane, "a1")
    assert turns == ["a2", "a0"]


def test_a_message_out_of_turn_is_taken_if_nobody_else_waits(lane: World) -> None:
    for number in range(5):
        put(lane, f"a{number}", "acme")
    assert isinstance(claim(lane, "a4"), Claimed)


def test_a_message_out_of_turn_waits_if_another_tenant_does(lane: World) -> None:
    for number in range(5):
        put(lane, f"a{number}", "acme")
    put(lane, "b", "bolt")
    assert claim(lane, "a4") == NotClaimed("turn")
    assert isinstance(claim(lane, "a0"), Claimed), "one in the window runs"


def test_bare_messages_line_up_as_they_are_taken(lane: World) -> None:
    for number in range(3):
        put(lane, f"a{number}", "acme")
    put(lane, "b0", "bolt")
    turns = told(lane)
    bare = JobSpec(job_id="bare", agent="shop", input="buy", tenant="acme")
    assert not lane.store.create(bare, arrived=True).held
    assert claim(lane, "bare") == NotClaimed("turn")
    assert turns == []
    take(lane, "a0")
    assert turns == ["b0"]
    for number in range(1, 3):
        lane.store.cancel(f"a{number}")
    lane.store.cancel("b0")
    assert claim(lane, "bare") != NotClaimed("turn"), "alone, it needs no turn"


def test_a_lost_hint_is_sent_again_and_keeps_its_place(lane: World) -> None:
    for number in range(3):
        put(lane, f"a{number}", "acme")
    lane.advance(6 * SECOND)
    assert hinted(lane) == ["a0", "a1"]


def test_jobs_that_nobody_takes_up_leave_the_window(lane: World) -> None:
    for number in range(4):
        put(lane, f"a{number}", "acme")
    lane.advance(40 * SECOND)
    assert hinted(lane) == ["a0", "a1", "a2", "a3"]
    lane.advance(10 * MINUTE)
    assert hinted(lane)[:2] == ["a0", "a1"], "and are hinted on"
    assert isinstance(claim(lane, "a1"), Claimed)


def test_while_all_slots_are_busy_the_window_stays(lane: World) -> None:
    for number in range(4):
        put(lane, f"a{number}", "acme")
    held = take(lane, "a0")
    for _ in range(3):
        lane.advance(40 * SECOND)
        lane.store.renew([("a0", held.epoch)], MINUTE)
        assert "a3" not in hinted(lane)


def test_a_job_whose_agent_nobody_has_keeps_no_place_from_others(lane: World) -> None:
    for number in range(5):
        put(lane, f"x{number}", "acme", agent="gone", message={"queue": "celery"})
    assert put(lane, "b", "bolt")


def test_jobs_of_an_agent_that_is_gone_leave_the_lane(lane: World) -> None:
    lane.store.set_policy("acme", TenantPolicy(weight=100))
    announce(lane, gone="celery", shop="celery")
    for number in range(5):
        put(lane, f"x{number}", "acme", agent="gone")
    put(lane, "b", "bolt")
    announce(lane, shop="celery")  # the same worker, started anew without the agent
    turns = told(lane)
    take(lane, "x0")
    assert turns == ["b"]


def test_jobs_that_came_before_their_agent_join_the_others(plain: World) -> None:
    for number in range(5):
        put(plain, f"a{number}", "acme")
    announce(plain)
    put(plain, "b", "bolt")
    take(plain, "a0")
    assert claim(plain, "a4") == NotClaimed("turn"), "the other one waits in the same lane"


def test_renewals_tell_that_others_wait(lane: World) -> None:
    put(lane, "a0", "acme")
    held = take(lane, "a0")
    assert not held.crowded
    lease = [("a0", held.epoch)]
    for number in range(1, 5):
        put(lane, f"a{number}", "acme")
    assert lane.store.renew(lease, MINUTE) == ["renewed"], "its own tenant's jobs are no others"
    put(lane, "b", "bolt")
    assert lane.store.renew(lease, MINUTE) == ["crowded"]
    assert take(lane, "a1").crowded
    lane.store.cancel("a0")
    assert lane.store.renew(lease, MINUTE) == ["cancel"]


def test_a_runner_that_was_taken_for_dead_has_its_slot_back(lane: World) -> None:
    lane.store.set_policy("acme", TenantPolicy(concurrency=1))
    put(lane, "a0", "acme")
    held = take(lane, "a0")
    lane.advance(2 * MINUTE)
    put(lane, "a1", "acme")
    assert hinted(lane) == ["a0"]
    assert lane.store.renew([("a0", held.epoch)], MINUTE) == ["renewed"]
    assert tenant(lane, "acme").running == 1
    turns = told(lane)
    end_slice(lane, held)
    assert turns == ["a1"]


def test_a_pause_and_a_wait_take_no_slot(lane: World) -> None:
    lane.store.set_policy("acme", TenantPolicy(concurrency=1))
    for number in range(3):
        put(lane, f"a{number}", "acme")
    turns = told(lane)
    end_slice(lane, take(lane, "a0"), JobStatus.PAUSED)
    end_slice(lane, take(lane, "a1"), JobStatus.WAITING)
    assert turns == ["a1", "a2"]
    end_slice(lane, take(lane, "a2"))
    lane.store.published("a2")
    answer(lane, job_id="a0")
    assert isinstance(claim(lane, "a0"), Claimed), "its message comes, and it is its turn"
    lane.advance(30 * SECOND)
    assert hinted(lane) == []
    lane.advance(50 * SECOND)
    assert hinted(lane) == ["a0"], "its worker has died, and it is the older one"


def test_a_job_that_expires_ends_without_its_turn(lane: World) -> None:
    for number in range(3):
        put(lane, f"a{number}", "acme")
    put(lane, "late", "acme", start_within_ms=30_000)
    held = take(lane, "a0")
    lane.advance(20 * SECOND)
    lane.store.renew([("a0", held.epoch)], MINUTE)
    assert "late" not in hinted(lane)
    lane.advance(11 * SECOND)
    assert "late" in hinted(lane)
    found = claim(lane, "late")
    assert isinstance(found, ToPublish)
    assert found.status is JobStatus.CANCELLED


# --- what is too much --------------------------------------------------------------------------


def test_a_backlog_has_a_cap(plain: World) -> None:
    world = plain
    world.store.set_policy("acme", TenantPolicy(backlog=2))
    put(world, "a0", "acme")
    submit(world, "a1", delay_ms=MINUTE, tenant="acme")
    with pytest.raises(BacklogFull, match="tenant 'acme': 2 jobs wait already, and at most 2 may"):
        put(world, "a2", "acme")
    assert put(world, "a0", "acme"), "one that is stored already is no more of a burden"
    put(world, "b0", "bolt")
    put(world, "sub", "acme", parent="a0")
    take(world, "a0")
    with pytest.raises(BacklogFull):
        put(world, "a2", "acme")
    world.store.cancel("sub")
    put(world, "a2", "acme")


def test_the_whole_store_has_a_cap(plain: World) -> None:
    world = plain
    world.store.set_policy(EVERYBODY, TenantPolicy(backlog=2))
    put(world, "j0")
    put(world, "a0", "acme")
    for name in ("", "acme"):
        with pytest.raises(BacklogFull, match="the store: 2 jobs wait already"):
            put(world, "x", name)
    world.store.set_policy(EVERYBODY, None)
    put(world, "x")


def test_policies_are_kept_and_forgotten(world: World) -> None:
    policy = TenantPolicy(weight=2.5, concurrency=10, backlog=5000)
    world.store.set_policy("größe: 1 *", policy)
    world.store.set_policy("*", TenantPolicy(weight=0.5))
    assert world.store.policies() == {"größe: 1 *": policy, "*": TenantPolicy(weight=0.5)}
    put(world, "b", "bolt")
    found = {each.name: each for each in world.store.tenants()}
    assert found["größe: 1 *"].own
    assert found["größe: 1 *"].policy == policy
    assert not found["bolt"].own
    assert found["bolt"].policy.weight == 0.5
    world.store.set_policy("größe: 1 *", None)
    world.store.set_policy("*", None)
    assert world.store.policies() == {}


def test_a_name_has_a_length(world: World) -> None:
    with pytest.raises(InvalidInput, match="200"):
        world.store.set_policy("x" * 201, TenantPolicy())


def test_tenants_with_odd_names_do_not_meet(lane: World) -> None:
    announce(lane, slots=50)
    names = ["a", "a:b", "b", "{sk:1}:due", "%s", "x y", "ü", "ready:a", "1:a"]
    for number, name in enumerate(names):
        put(lane, f"j{number}", name)
    assert all(tenant(lane, name).ready == 1 for name in names)
    for number, _ in enumerate(names):
        take(lane, f"j{number}")
    assert all(tenant(lane, name).running == 1 for name in names)


def test_nothing_stays_behind(world: World) -> None:
    announce(world)
    baseline = world.left_behind()
    for number in range(6):
        put(world, f"a{number}", "acme", retention_s=60)
        put(world, f"b{number}", "bolt", retention_s=60)
    for _ in range(3):
        for number in range(6):
            for name in "ab":
                held = claim(world, f"{name}{number}")
                if isinstance(held, Claimed):
                    settle(world, held, 1, JobStatus.SUCCEEDED, DONE)
                    world.store.published(held.spec.job_id)
    world.advance(2 * MINUTE)
    sweep(world)
    left = [name for name in world.left_behind() if ":used:" not in name]
    assert left == baseline, "but for what was used of late"
