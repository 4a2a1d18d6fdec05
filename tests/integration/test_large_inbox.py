"""An inbox of many thousands: pages and filters read what they show, and what a job takes.

``TEST_INBOX`` says how many jobs wait; 5,000 by default. Counts, not times: they are the same on
every machine. With 100,000 the numbers of commands are those of 5,000.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from api_client.contract import JobSpec, JobStatus, PauseKind, ProposedAction
from api_client.inbox import InboxFilter
from api_client.keys import Keys
from api_client.records import dumps
from api_client.redis_walk import CHUNK
from tests.integration.web.browser import Browser
from tests.support.web import WebServer
from worker.embedded import EmbeddedServer
from worker.pauses import PausePolicy, make_pause
from worker.store.base import Claimed, Progress, Settlement, Ticket
from worker.store.redis import RedisCheckpointStore
from worker.web.console.lists import PAGE

MANY = int(os.environ.get("TEST_INBOX", "5000"))
BYTES = 3 * 1024

KEYS = Keys(0)
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You are the support agent of an online shop."},
    {"role": "user", "content": "I want to return order 1187, it arrived broken."},
    {"role": "assistant", "content": "I pay it back."},
]
MESSAGE_BYTES = sum(len(dumps(message)) for message in MESSAGES)
REFUND = ProposedAction(call_id="call_1", tool="refund", arguments={"order": "1187", "euro": 50})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server that need not survive anything, and so is quick."""
    with EmbeddedServer(tmp_path_factory.mktemp("inbox"), appendfsync="no") as server:
        yield server


@pytest.fixture(scope="module")
def client(server: EmbeddedServer) -> Iterator[redis.Redis]:
    """For looking behind the store."""
    with redis.Redis.from_url(server.url, protocol=2) as client:
        yield client


@pytest.fixture(scope="module")
def store(client: redis.Redis) -> RedisCheckpointStore:
    """An inbox in which one job in 500 is rare."""
    store = RedisCheckpointStore(client, partitions=1)
    before = _used(client)
    for number in range(MANY):
        _pause(store, number)
    followed = int(client.memory_usage(KEYS.events, samples=0) or 0)
    each = (_used(client) - before - followed) / MANY - MESSAGE_BYTES
    traces = [int(client.memory_usage(KEYS.trace(_id(number))) or 0) for number in range(100)]
    print(
        f"\n{MANY} paused jobs: {each:.0f} bytes each beyond messages, {sum(traces) // 100} of "
        f"them the trace; and {followed / MANY:.0f} of events, of which the latest 10,000 are kept"
    )
    assert each < BYTES
    assert max(traces) < 1024, "not what Redis sets aside for a stream that is written to"
    return store


@pytest.fixture(scope="module")
def web(server: EmbeddedServer) -> Iterator[WebServer]:
    """A web server on it."""
    with WebServer(server.url) as web:
        yield web


def _id(number: int) -> str:
    return str(uuid.UUID(int=number + 1))


def _used(client: redis.Redis) -> int:
    return int(client.info("memory")["used_memory"])


def _pause(store: RedisCheckpointStore, number: int) -> None:
    job_id = _id(number)
    rare = number % 500 == 0
    spec = JobSpec(
        job_id=job_id,
        agent="rare" if rare else "shop",
        input="I want to return order 1187, it arrived broken.",
        tenant=f"tenant-{number % 7}",
        labels=("support",),
    )
    store.create(spec)
    claim = store.claim(job_id, owner="w@host/b/1/", nonce="n", lease_ms=60_000, max_tries=5)
    assert isinstance(claim, Claimed)
    pause = make_pause(
        PauseKind.APPROVAL,
        "May the agent run refund with these arguments?",
        number=1,
        step=1,
        action=REFUND,
        policy=PausePolicy(("leads",) if rare else ("support",), deadline_s=2 * 86400),
    )
    settlement = Settlement(JobStatus.PAUSED, pause)
    ticket = Ticket(job_id, claim.epoch, claim.seq + 1)
    data = {"pause": pause.id, "kind": pause.kind, "question": pause.question}
    store.settle(ticket, Progress('{"u":[900,40]}', "paused", data, MESSAGES), settlement)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (InboxFilter(agent="rare"), MANY // 500),
        (InboxFilter(label="leads", tenant="tenant-0"), len(range(0, MANY, 3500))),
        (InboxFilter(visible_to=("leads",)), MANY // 500),
    ],
    ids=["agent", "label and tenant", "visible"],
)
def test_a_rare_facet_is_found_without_walking_through_the_others(
    store: RedisCheckpointStore, client: redis.Redis, chosen: InboxFilter, expected: int
) -> None:
    client.config_resetstat()
    page = store.inbox(chosen, limit=1000)
    assert len(page) == expected
    assert page.next_cursor == ""
    stats = client.info("commandstats")
    calls = {name: entry["calls"] for name, entry in stats.items()}
    assert calls["cmdstat_hgetall"] == expected
    assert calls["cmdstat_zrange"] <= 2
    assert calls.get("cmdstat_zmscore", 0) <= 4


WAYS: dict[str, tuple[dict[str, str], int]] = {
    "agent": ({"agent": "rare"}, MANY // 500),
    "label": ({"label": "leads"}, MANY // 500),
    "kind": ({"kind": "approval"}, PAGE),
    "deadline": ({"order": "deadline"}, PAGE),
    "newest": ({"order": "newest"}, PAGE),
}


@pytest.mark.parametrize(("wanted", "expected"), WAYS.values(), ids=list(WAYS))
@pytest.mark.parametrize("way", ["client", "http", "console"])
def test_each_way_in_reads_the_jobs_of_one_page(
    store: RedisCheckpointStore,
    client: redis.Redis,
    web: WebServer,
    way: str,
    wanted: dict[str, Any],
    expected: int,
) -> None:
    api, browser = web.client(web.key()), Browser(web)
    browser.login(web.key())
    client.config_resetstat()
    if way == "client":
        shown = len(web.parts.client.inbox(PAGE, older_than_s=0, **wanted))
    elif way == "http":
        params = {"limit": str(PAGE), "older_than_s": "0", **wanted}
        shown = len(api.get("/v1/inbox", params=params).json()["jobs"])
    else:
        shown = browser.get("/inbox", **wanted).count('<li class="row">')
    stats = client.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): entry["calls"] for name, entry in stats.items()}
    browser.http.close()
    assert shown == min(expected, PAGE)
    assert calls["hgetall"] <= shown + 5, "the jobs that are shown; keys and agents"
    assert calls["zrange"] + calls.get("zmscore", 0) <= 6
    assert sum(calls.values()) <= shown + 40, calls


def test_all_pages_together_hold_every_job_once(store: RedisCheckpointStore) -> None:
    seen: list[str] = []
    cursor, slowest = "", 0.0
    while True:
        start = time.perf_counter()
        page = store.inbox(InboxFilter(), limit=CHUNK // 3, cursor=cursor)
        slowest = max(slowest, time.perf_counter() - start)
        seen += [view.job_id for view in page]
        assert page.total == MANY
        cursor = page.next_cursor
        if not cursor:
            break
    print(f"\n{MANY} paused jobs: the slowest page took {slowest * 1000:.0f} ms")
    assert len(seen) == len(set(seen)) == MANY


def test_a_deep_page_costs_as_much_as_the_first(
    store: RedisCheckpointStore, client: redis.Redis
) -> None:
    costs = []
    cursor = ""
    for _ in range(5):
        client.config_resetstat()
        page = store.inbox(InboxFilter(), limit=MANY // 10, cursor=cursor)
        cursor = page.next_cursor
        stats = client.info("commandstats")
        costs.append(stats["cmdstat_zrange"]["calls"])
    assert max(costs) - min(costs) <= 1, costs
