"""How many jobs may wait for an agent, and for the agents of a queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from api_client.backlogs import Backlog, Kind
from api_client.contract import AgentInfo, JobSpec
from api_client.errors import BacklogFull, InvalidInput
from api_client.tenants import EVERYBODY, TenantPolicy
from tests.contract.acts import submit, take
from tests.contract.worlds import MINUTE, MemoryWorld, RedisWorld, World
from worker.store.base import Slots

QUEUES = {"shop": "celery", "docs": "celery", "mail": "slow"}


@pytest.fixture(params=["memory", "redis"])
def one(request: pytest.FixtureRequest) -> Iterator[World]:
    """A store in one partition, whose workers have announced three agents in two queues."""
    if request.param == "memory":
        yield announced(MemoryWorld())
        return
    found = RedisWorld(request.getfixturevalue("redis_url"))
    yield announced(found)
    found.close()


def announced(world: World, **caps: int) -> World:
    slots = Slots("w1", 1, ("celery", "slow"), QUEUES, 3 * MINUTE, caps)
    world.store.announce_slots(slots)
    return world


def refuses(world: World, words: str, agent: str = "shop") -> None:
    with pytest.raises(BacklogFull, match=words):
        submit(world, "one-more", agent=agent)


def backlog(world: World, kind: Kind, name: str) -> Backlog:
    return next(b for b in world.store.backlogs() if (b.kind, b.name) == (kind, name))


def test_an_agent_has_a_cap(one: World) -> None:
    one.store.set_cap("agent", "shop", 2)
    submit(one, "a")
    submit(one, "b", delay_ms=MINUTE)
    refuses(
        one,
        "^agent 'shop': 2 jobs wait already, and at most 2 may; nothing was accepted. Submit it "
        "again when some have run, or raise the cap: stepkeeper backlogs set --agent 'shop' N$",
    )
    again = JobSpec(job_id="a", agent="shop", input="buy")
    assert not one.store.create(again).new, "one that is stored already is no more of a burden"
    submit(one, "docs", agent="docs")
    submit(one, "sub", parent="a")
    one.store.cancel("sub")
    take(one, "a")
    submit(one, "c")
    refuses(one, "agent 'shop': 2 jobs")


def test_a_queue_has_a_cap_over_all_of_its_agents(one: World) -> None:
    one.store.set_cap("queue", "celery", 2)
    submit(one, "a")
    submit(one, "b", agent="docs", tenant="acme")
    for agent in ("shop", "docs"):
        refuses(one, "queue 'celery': 2 jobs .* stepkeeper backlogs set --queue 'celery' N", agent)
    submit(one, "c", agent="mail")
    submit(one, "d", agent="nobody-has-announced-it")
    one.store.cancel("b")
    submit(one, "e")


def test_who_says_it_nearest_says_it(one: World) -> None:
    one.store.set_cap("agent", "*", 1)
    one.store.set_cap("queue", "*", 3)
    announced(one, docs=2)
    for job, agent in (("a", "shop"), ("b", "docs"), ("c", "docs")):
        submit(one, job, agent=agent)
    refuses(one, "agent 'shop': 1 jobs")
    refuses(one, "agent 'docs': 2 jobs", "docs")
    one.store.set_cap("agent", "docs", 0)
    refuses(one, "queue 'celery': 3 jobs", "docs")
    one.store.set_cap("queue", "celery", 0)
    submit(one, "d", agent="docs")
    assert one.store.set_cap("agent", "docs", None)
    assert not one.store.set_cap("agent", "docs", None)
    refuses(one, "agent 'docs': 3 jobs wait already, and at most 2 may", "docs")


def test_the_cap_of_the_code_is_kept_until_a_worker_says_otherwise(one: World) -> None:
    announced(one, shop=1)
    submit(one, "a")
    one.advance(10 * MINUTE)
    one.store.announce_slots(Slots("w2", 1, ("slow",), {"mail": "slow"}, 3 * MINUTE))
    refuses(one, "agent 'shop': 1 jobs")
    announced(one)
    submit(one, "b")


def test_the_tenant_and_the_store_are_asked_first(one: World) -> None:
    one.store.set_cap("agent", "shop", 1)
    one.store.set_policy("acme", TenantPolicy(backlog=1))
    submit(one, "a", tenant="acme")
    with pytest.raises(BacklogFull, match="tenant 'acme'"):
        submit(one, "b", tenant="acme")
    one.store.set_policy(EVERYBODY, TenantPolicy(backlog=1))
    refuses(one, "the store: 1 jobs wait already.*tenants set --all --backlog N")


def test_callers_at_once_do_not_pass_a_cap_together(one: World) -> None:
    one.store.set_cap("agent", "shop", 10)

    def accepted(number: int) -> bool:
        try:
            submit(one, f"j{number}")
        except BacklogFull:
            return False
        return True

    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(accepted, range(64))) == 10
    assert backlog(one, "agent", "shop").present == 10


def test_backlogs_are_listed_with_their_caps(world: World) -> None:
    announced(world, docs=7).store.announce([AgentInfo(name="shop"), AgentInfo(name="new")])
    for number in range(5):
        submit(world, f"j{number}")
    submit(world, "mail", agent="mail")
    world.store.set_cap("agent", "gone", 8)
    world.store.set_cap("agent", "*", 100)
    world.store.set_cap("queue", "celery", 1000)
    assert [(b.kind, b.name, b.present, b.cap, b.set_by) for b in world.store.backlogs()] == [
        ("agent", "docs", 0, 7, "code"),
        ("agent", "gone", 0, 8, "command"),
        ("agent", "mail", 1, 100, "*"),
        ("agent", "new", 0, 100, "*"),
        ("agent", "shop", 5, 100, "*"),
        ("agent", "*", 0, 100, "command"),
        ("queue", "celery", 5, 1000, "command"),
        ("queue", "slow", 1, None, ""),
    ]


def test_each_partition_holds_its_share_of_a_cap(redis_url: str) -> None:
    world = RedisWorld(redis_url, partitions=4)
    announced(world, docs=4)
    world.store.set_cap("agent", "shop", 8)
    accepted = {"shop": 0, "docs": 0}
    for number in range(100):
        for agent in accepted:
            try:
                submit(world, f"{agent}{number}", agent=agent)
            except BacklogFull as error:
                assert "(its share of the cap, in one of 4 partitions)" in str(error)  # noqa: PT017
            else:
                accepted[agent] += 1
    assert accepted == {"shop": 8, "docs": 4}
    world.close()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda store: store.set_cap("agent", "a b", 1), "agent 'a b'"),
        (lambda store: store.set_cap("queue", "", 1), "queue ''"),
        (lambda store: store.set_cap("queue", "x" * 201, 1), "200"),
        (lambda store: store.set_cap("queue", "a\n", 1), "printable"),
        (lambda store: store.set_cap("agent", "shop", -1), "backlog of agent 'shop': -1"),
        (lambda store: store.set_cap("agent", "shop", 10**9 + 1), "1,000,000,000"),
    ],
)
def test_what_makes_no_sense_is_refused(
    one: World, act: Callable[[object], object], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        act(one.store)
    assert all(backlog.cap is None for backlog in one.store.backlogs())
