"""Commits on connections of their own: whatever breaks, they are made once, or said to be not."""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from api_client.connection import connect
from api_client.contract import JobSpec
from api_client.errors import StoreUnavailable
from tests.support.proxy import Proxy
from worker.embedded import EmbeddedServer
from worker.store.base import Claimed, Progress, Ticket, Underway
from worker.store.redis import RedisCheckpointStore
from worker.store.wire import MOST_IDLE, Head, Strand, Wire

ODD = {"role": "tool", "content": "ü 漢 \x00 \r\n $5 " + "x" * 100_000 + "\ud800"}


class Job:
    """A claimed job on a store, and its next commit."""

    def __init__(self, store: RedisCheckpointStore, job_id: str = "job-1") -> None:
        self.store = store
        self.id = job_id
        self.seq = 0
        store.create(JobSpec(job_id=job_id, agent="a", input="x"))
        claim = store.claim(job_id, owner="n/b/1/", nonce="x", lease_ms=60_000, max_tries=3)
        assert isinstance(claim, Claimed)
        self.epoch = claim.epoch

    def begin(
        self, message: dict[str, Any] | None = None, before: Underway | None = None
    ) -> Underway:
        """Send the next commit on its way."""
        self.seq += 1
        ticket = Ticket(self.id, self.epoch, self.seq)
        given = {"n": self.seq} if message is None else message
        return self.store.begin_commit(ticket, Progress("{}", "reply", {}, [given]), before)

    def commit(self) -> str:
        """Commit, and wait."""
        self.seq += 1
        ticket = Ticket(self.id, self.epoch, self.seq)
        return self.store.commit(ticket, Progress("{}", "reply", {}, [{"n": self.seq}]))

    @property
    def numbers(self) -> list[int]:
        """Of the messages that are stored."""
        return [message["n"] for message in self.store.messages(self.id)]


@pytest.fixture
def proxy(redis_url: str) -> Iterator[Proxy]:
    """In front of the Redis that all tests share."""
    port = redis.Redis.from_url(redis_url).connection_pool.connection_kwargs["port"]
    with Proxy(port) as proxy:
        yield proxy


def connections(store: RedisCheckpointStore) -> int:
    """How many the store's pool has made."""
    return int(store._redis.connection_pool._created_connections)


def test_texts_of_every_kind_arrive(redis_url: str) -> None:
    job = Job(RedisCheckpointStore(connect(redis_url)))
    assert job.begin(ODD)() == "committed"
    assert job.store.messages(job.id) == [ODD]


def test_one_connection_serves_commit_after_commit(redis_url: str) -> None:
    job = Job(RedisCheckpointStore(connect(redis_url)))
    job.commit()
    before = connections(job.store)
    assert {job.commit() for _ in range(100)} == {"committed"}
    assert connections(job.store) == before
    assert job.numbers == list(range(1, 102))


def test_a_commit_on_its_way_is_executed_whoever_waits(redis_url: str) -> None:
    """And a connection to whose answer nobody listened is not used again."""
    store = RedisCheckpointStore(connect(redis_url))
    job, other = Job(store), Job(store, "job-2")
    job.begin()
    gc.collect()
    assert other.commit() == "committed"
    job.seq = 0
    assert job.commit() == "committed"  # it is known already
    assert job.numbers == [1]


def visible(url: str, job_id: str, count: int) -> float:
    """Seconds until so many messages are stored; fails after ten."""
    direct, start = RedisCheckpointStore(connect(url)), time.monotonic()
    while len(direct.messages(job_id)) < count:
        assert time.monotonic() - start < 10
        time.sleep(0.005)
    direct._redis.close()
    return time.monotonic() - start


def test_a_commit_is_held_back_for_the_next_but_not_for_long(redis_url: str) -> None:
    """The kernel sends it by itself, whatever this process is doing."""
    job = Job(RedisCheckpointStore(connect(redis_url)))
    job.commit()
    answer = job.begin()
    assert visible(redis_url, job.id, 2) < 2.0
    assert answer() == "committed"


def test_a_commit_that_is_waited_for_is_not_held_back(redis_url: str) -> None:
    job = Job(RedisCheckpointStore(connect(redis_url)))
    job.commit()
    start = time.monotonic()
    assert {job.commit() for _ in range(20)} == {"committed"}
    assert {job.begin()() for _ in range(20)} == {"committed"}
    assert time.monotonic() - start < 2.0  # forty times a fifth of a second are eight


def test_a_commit_that_was_sent_outlives_its_process(redis_url: str) -> None:
    job = Job(RedisCheckpointStore(connect(redis_url)))
    pid = os.fork()
    if pid == 0:
        job.begin()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    visible(redis_url, job.id, 1)
    assert job.numbers == [1]


def test_two_commits_go_together(redis_url: str) -> None:
    job = Job(RedisCheckpointStore(connect(redis_url)))
    for _ in range(50):
        first = job.begin()
        second = job.begin(before=first)
        assert (first(), second()) == ("committed", "committed")
    assert job.numbers == list(range(1, 101))


@pytest.mark.parametrize("lost", ["before", "between", "after", "script", "refused"])
def test_two_commits_are_made_once_whatever_breaks(
    redis_url: str, own_valkey: EmbeddedServer, lost: str
) -> None:
    with Proxy(redis.Redis.from_url(own_valkey.url).connection_pool.connection_kwargs["port"]) as p:
        job = Job(RedisCheckpointStore(connect(p.url)))
        job.commit()
        server = redis.Redis.from_url(own_valkey.url)
        if lost == "before":
            p.cut()
        if lost == "script":
            server.script_flush()
        if lost == "refused":
            server.config_set("maxmemory", 1)
        first = job.begin()
        if lost == "between":
            visible(own_valkey.url, job.id, 2)
            p.cut()
        second = job.begin(before=first)
        if lost == "after":
            visible(own_valkey.url, job.id, 3)
            p.cut()
        if lost == "refused":
            with pytest.raises(StoreUnavailable, match="OOM"):
                first()
            server.config_set("maxmemory", 0)
        # Both are stored, and their answers may be lost: then the number of the first is an old
        # one, and whoever waits for the two goes by the last answer.
        assert first() in (("committed", "fenced") if lost == "after" else ("committed",))
        assert second() == "committed"
        assert second() == "committed"
        assert job.numbers == [1, 2, 3]
        server.close()


def test_many_threads_commit_at_once(redis_url: str) -> None:
    store = RedisCheckpointStore(connect(redis_url))
    jobs = [Job(store, f"job-{number}") for number in range(16)]

    def work(job: Job) -> list[str]:
        return [job.commit() for _ in range(50)]

    with ThreadPoolExecutor(16) as pool:
        for answers in pool.map(work, jobs):
            assert answers == ["committed"] * 50
    assert all(job.numbers == list(range(1, 51)) for job in jobs)


def test_idle_connections_are_left_to_others(redis_url: str) -> None:
    most = MOST_IDLE + 8
    store = RedisCheckpointStore(connect(redis_url, max_connections=most))
    jobs = [Job(store, f"job-{number}") for number in range(most)]
    underway = [job.begin() for job in jobs]  # each on a connection of its own
    assert connections(store) == most
    assert [answer() for answer in underway] == ["committed"] * most
    with ThreadPoolExecutor(8) as pool:
        views = list(pool.map(lambda job: store.read(job.id), jobs))
    assert len(views) == most


@pytest.mark.parametrize("trouble", ["script flush", "kill", "cut", "restart"])
def test_a_commit_survives(
    proxy: Proxy, redis_url: str, own_valkey: EmbeddedServer, trouble: str
) -> None:
    url = own_valkey.url if trouble == "restart" else proxy.url
    job = Job(RedisCheckpointStore(connect(url)))
    job.commit()
    server = redis.Redis.from_url(redis_url)
    with server:
        match trouble:
            case "script flush":
                server.script_flush()
            case "kill":
                server.client_kill_filter(_type="normal", skipme=True)
            case "cut":
                proxy.cut()
            case "restart":
                own_valkey.stop()
                own_valkey.start()
    assert [job.commit() for _ in range(3)] == ["committed"] * 3
    assert job.numbers == [1, 2, 3, 4]


def test_an_answer_that_is_lost_on_its_way_back_is_asked_for_again(
    redis_url: str, proxy: Proxy
) -> None:
    job = Job(RedisCheckpointStore(connect(proxy.url)))
    job.commit()
    answer = job.begin()
    direct = RedisCheckpointStore(connect(redis_url))
    deadline = time.monotonic() + 10
    while len(direct.messages(job.id)) < 2:
        assert time.monotonic() < deadline
    proxy.cut()
    assert answer() == "committed"
    assert answer() == "committed"
    assert job.numbers == [1, 2]


def test_a_silent_server_is_asked_once(own_valkey: EmbeddedServer) -> None:
    job = Job(RedisCheckpointStore(connect(own_valkey.url, timeout_s=1.0)))
    job.commit()
    os.kill(own_valkey.pid, signal.SIGSTOP)
    try:
        start = time.monotonic()
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            job.commit()
        assert time.monotonic() - start < 1.9
    finally:
        os.kill(own_valkey.pid, signal.SIGCONT)
    job.seq -= 1
    assert job.commit() == "committed"
    assert job.numbers == [1, 2]


@pytest.mark.parametrize("word", ["READONLY", "OOM"])
def test_a_refusal_is_named(own_valkey: EmbeddedServer, word: str) -> None:
    job = Job(RedisCheckpointStore(connect(own_valkey.url)))
    job.commit()
    client = redis.Redis.from_url(own_valkey.url)
    with client:
        if word == "OOM":
            client.config_set("maxmemory", 1)
        else:
            client.replicaof("127.0.0.1", 1)
        with pytest.raises(StoreUnavailable, match=word):
            job.commit()
        if word == "OOM":
            client.config_set("maxmemory", 0)
        else:
            client.replicaof("NO", "ONE")
    job.seq -= 1
    assert job.commit() == "committed"
    assert job.numbers == [1, 2]


def test_a_child_process_takes_no_connection_of_its_parent(redis_url: str, tmp_path: Path) -> None:
    job = Job(RedisCheckpointStore(connect(redis_url)))
    job.commit()
    pid = os.fork()
    if pid == 0:
        try:
            answers = [job.commit() for _ in range(20)]
            (tmp_path / "child").write_text(" ".join(answers))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert (tmp_path / "child").read_text() == " ".join(["committed"] * 20)
    job.seq += 20
    assert job.commit() == "committed"
    assert job.numbers == list(range(1, 23))


def test_a_command_is_packed_as_redis_wants_it(redis_url: str) -> None:
    client = connect(redis_url)
    wire = Wire(client)
    keep = Head(["EVAL", "redis.call('SET', KEYS[1], ARGV[1]) return 7", "1", "kept"])
    for text in ("", "x", "ä" * 70_000, "a\r\nb", "0"):
        assert wire.send(keep.packed([text.encode()])).read() == 7
        assert client.get("kept") == text.encode()


class Line:
    """A strand whose other end is ours."""

    def __init__(self) -> None:
        self.socket, self.server = socket.socketpair()
        self.socket.settimeout(5)
        self.strand = Strand(SimpleNamespace(_sock=self.socket))


@pytest.fixture
def line() -> Iterator[Line]:
    """A strand to this test."""
    found = Line()
    with found.socket, found.server:
        yield found


def test_answers_that_come_in_pieces_or_together_are_told_apart(line: Line) -> None:

    def dribble() -> None:
        for piece in (b":", b"1", b"2\r", b"\n:3\r\n:4\r\n:", b"5\r\n"):
            line.server.sendall(piece)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(dribble)
        assert [line.strand.read() for _ in range(4)] == [12, 3, 4, 5]


def test_a_refusal_spoils_no_answer_behind_it(line: Line) -> None:
    line.server.sendall(b"-NOSCRIPT no matching script\r\n:1\r\n")
    with pytest.raises(ResponseError, match="NOSCRIPT no matching script"):
        line.strand.read()
    assert line.strand.read() == 1


@pytest.mark.parametrize("answer", [b"+OK\r\n", b"$1\r\n7\r\n", b">2\r\n", b"\r\n"])
def test_an_answer_that_is_no_number_is_none(line: Line, answer: bytes) -> None:
    line.server.sendall(answer)
    with pytest.raises(RedisConnectionError, match="no number"):
        line.strand.read()


def test_a_server_that_hangs_up_in_the_middle_of_an_answer_has_given_none(
    line: Line,
) -> None:
    line.server.sendall(b":1")
    line.server.close()
    with pytest.raises(RedisConnectionError, match="has closed"):
        line.strand.read()


def test_a_server_that_takes_nothing_is_told_as_one(line: Line) -> None:
    line.socket.settimeout(0.05)
    with pytest.raises(RedisTimeoutError, match="takes nothing"):
        line.strand.send(b"x" * 50_000_000, hold=False)
