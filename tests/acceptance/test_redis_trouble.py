"""Redis restarts, refuses and falls silent: nothing accepted is lost, and nobody has to help."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from api_client import AgentClient
from api_client.errors import StoreUnavailable
from tests.support.lab import Lab, States
from tests.support.nursery import Nursery
from tests.support.proxy import Proxy
from tests.support.redis_trouble import SCALE, Load, refusals
from tests.support.workers import eventually
from worker.embedded import EmbeddedServer
from worker.embedded.ports import free_ports

RECOVERY_S = 15.0
"""Workers go on within this time after Redis is back."""

ERROR_S = 6.0
"""A caller has its error within this time when Redis is away."""

WORDS = "look put look+put " * 3


@pytest.fixture
def own_lab(nursery: Nursery, own_valkey: EmbeddedServer, tmp_path: Path) -> Iterator[Lab]:
    """A lab on a Redis that the test may kill, freeze and reconfigure."""
    folder = tmp_path / "lab"
    folder.mkdir()
    lab = Lab(nursery, own_valkey.url, folder)
    yield lab
    lab.close()


@pytest.fixture
def proxy(redis_url: str) -> Iterator[Proxy]:
    """In front of the Redis that all tests share."""
    with Proxy(port_of(redis_url)) as proxy:
        yield proxy


def port_of(url: str) -> int:
    """The port in a Redis URL."""
    return int(redis.Redis.from_url(url).connection_pool.connection_kwargs["port"])


def test_ten_crashes_of_redis_under_load_lose_nothing(
    own_lab: Lab, own_valkey: EmbeddedServer
) -> None:
    """SIGKILL and restart, ten times, with ``appendfsync always`` (E10)."""
    load = Load(own_lab)
    for name in ("w1@test", "w2@test"):
        own_lab.worker(name)
    recoveries = []
    for _ in range(10):
        start = time.time()
        load.submit(4 * SCALE, WORDS)
        load.wait_steps(start, count=5)
        own_valkey.kill()
        own_valkey.start()
        back = time.time()
        (probe,) = load.submit(1, "look")
        recoveries.append(load.wait_steps(back, tag=load.tag(probe)))
    load.check()
    assert max(recoveries) < RECOVERY_S, recoveries


def test_cut_connections_change_nothing(lab: Lab, proxy: Proxy) -> None:
    """Three cuts in a row, by the network and by the server, while jobs run (E10)."""
    load = Load(lab)
    lab.worker(env={"STEPKEEPER_REDIS_URL": proxy.url})
    for cut in (proxy.cut, lambda: lab.redis.client_kill_filter(_type="normal", skipme=True)):
        for _ in range(3):
            start = time.time()
            load.submit(4, WORDS)
            load.wait_steps(start, count=3)
            cut()
    load.check()


def test_silent_connections_are_noticed(lab: Lab, proxy: Proxy) -> None:
    """A router forgets the connections: no end is announced, and nothing passes any more."""
    load = Load(lab)
    lab.worker(env={"STEPKEEPER_REDIS_URL": proxy.url})
    start = time.time()
    load.submit(4, WORDS)
    load.wait_steps(start, count=3)
    proxy.silence()
    (probe,) = load.submit(1, "look")
    proxy.heal()
    taken_s = load.wait_steps(time.time(), tag=load.tag(probe))
    print(taken_s)
    load.check()
    assert taken_s < 2 * RECOVERY_S


def _read_only(lab: Lab) -> Callable[[], object]:
    """As after a failover that left this server a replica, of a primary that is gone."""
    (nobody,) = free_ports(1)
    lab.redis.replicaof("127.0.0.1", nobody)
    return lambda: lab.redis.replicaof("NO", "ONE")


def _full(lab: Lab) -> Callable[[], object]:
    """No memory for any write."""
    lab.redis.config_set("maxmemory", 1)
    return lambda: lab.redis.config_set("maxmemory", 0)


@pytest.mark.parametrize(("word", "trouble"), [("READONLY", _read_only), ("OOM", _full)])
def test_refused_writes_are_waited_out(
    own_lab: Lab, word: str, trouble: Callable[[Lab], Callable[[], object]]
) -> None:
    """Jobs in flight keep their place; callers are told at once that nothing was accepted."""
    load = Load(own_lab)
    worker = own_lab.worker()
    with own_lab.shut("model-held-2"):
        held = own_lab.submit("look put @held")
        own_lab.wait_gate("model-held-2")
        relieve = trouble(own_lab)
        before = refusals(own_lab, word)
    with pytest.raises(StoreUnavailable, match=word):
        own_lab.submit("look @never")
    eventually(lambda: refusals(own_lab, word) > before + 2, f"the worker meets {word}")
    relieve()
    back = time.time()
    (probe,) = load.submit(1, "look")
    assert load.wait_steps(back, tag=load.tag(probe)) < RECOVERY_S
    own_lab.wait_published(held)
    assert [e["step"] for e in own_lab.ledger.entries("model", tag="held")] == [1, 2, 3]
    load.check()
    assert worker.alive


def test_loading_is_waited_out(own_lab: Lab, own_valkey: EmbeddedServer) -> None:
    """A server that still reads its file answers every command with LOADING."""
    load = Load(own_lab)
    own_lab.worker()
    own_lab.redis.mset({f"ballast:{number}": "x" for number in range(400)})
    start = time.time()
    load.submit(4, WORDS)
    load.wait_steps(start, count=3)
    own_lab.redis.bgrewriteaof()
    eventually(lambda: _rewritten(own_lab), "the file is rewritten")
    own_valkey.kill()
    own_valkey.config.update(SLOW_LOADING)
    starting = threading.Thread(target=own_valkey.start)
    starting.start()
    eventually(lambda: "is loading" in _refusal(own_lab), "the server loads")
    load.submit(1, "look")
    starting.join()
    load.check()


SLOW_LOADING = {"key-load-delay": "2000", "loading-process-events-interval-bytes": "1024"}


def _refusal(lab: Lab) -> str:
    try:
        lab.submit("look @never")
    except StoreUnavailable as error:
        return str(error)
    return ""


def _rewritten(lab: Lab) -> bool:
    state = lab.redis.info("persistence")
    return not state["aof_rewrite_in_progress"] and not state["aof_rewrite_scheduled"]


@pytest.mark.parametrize("moment", ["claim", "commit", "publish"])
def test_a_store_that_stays_away_fails_no_job(
    nursery: Nursery, redis_url: str, own_valkey: EmbeddedServer, tmp_path: Path, moment: str
) -> None:
    """Longer than a worker has patience: the job waits, and Celery is told of no failure."""
    folder = tmp_path / "lab"
    folder.mkdir()
    lab = Lab(nursery, own_valkey.url, folder)
    celery = {"STEPKEEPER_BROKER_URL": redis_url, "STEPKEEPER_RESULT_BACKEND": redis_url}
    client = AgentClient(lab.url, broker_url=redis_url)
    watched = States(redis_url)
    gate = {"claim": "", "commit": "model-a-1", "publish": "model-a-2"}[moment]
    try:
        if gate:
            lab.hold(gate)
            worker = lab.worker(env={**celery, "STEPKEEPER_PATIENCE_S": "0.5"})
        job_id = client.submit("plan", "look @a", check_agent=False)
        if gate:
            lab.wait_gate(gate)
        own_valkey.kill()
        if gate:
            lab.open(gate)
        else:
            worker = lab.worker(env={**celery, "STEPKEEPER_PATIENCE_S": "0.5"})
        worker.wait_line(f"{job_id}] ignored")
        own_valkey.start()
        assert client.result(job_id, timeout_s=30) == "look 1"
        lab.wait_published(job_id)
        assert watched.of(job_id) == ["SUCCESS"]
    finally:
        lab.close()


# --- callers ---------------------------------------------------------------------------------


def test_a_closed_port_is_an_error_soon() -> None:
    """Nothing listens (G3)."""
    (nobody,) = free_ports(1)
    client = AgentClient(f"redis://127.0.0.1:{nobody}/0")
    start = time.monotonic()
    with pytest.raises(StoreUnavailable, match="cannot reach Redis"):
        client.submit("plan", "look")
    assert time.monotonic() - start < ERROR_S


@pytest.mark.parametrize(
    ("connected", "timeout_s"), [(False, 1.0), (True, 5.0)], ids=["new", "connected"]
)
def test_a_silent_server_is_an_error_soon(
    own_valkey: EmbeddedServer, connected: bool, timeout_s: float
) -> None:
    """It accepts connections, and never answers (G3). The default is five seconds."""
    client = AgentClient(own_valkey.url, timeout_s=timeout_s)
    if connected:
        client.submit("plan", "look", check_agent=False)
    os.kill(own_valkey.pid, signal.SIGSTOP)
    try:
        start = time.monotonic()
        with pytest.raises(StoreUnavailable, match="Timeout"):
            client.submit("plan", "look")
        assert time.monotonic() - start < timeout_s + 1.0
    finally:
        os.kill(own_valkey.pid, signal.SIGCONT)


def test_a_job_is_accepted_while_the_broker_is_away(lab: Lab, own_valkey: EmbeddedServer) -> None:
    """The store has it; the sweep sends the hint when the broker is back."""
    client = AgentClient(lab.url, broker_url=own_valkey.url)
    worker = lab.worker(env={"STEPKEEPER_BROKER_URL": own_valkey.url})
    own_valkey.kill()
    start = time.monotonic()
    job_id = client.submit("plan", "look @a", check_agent=False)
    assert time.monotonic() - start < ERROR_S
    worker.wait_line("cannot reach the broker")
    assert client.get(job_id).status == "queued"
    own_valkey.start()
    assert client.result(job_id, timeout_s=30) == "look 1"


def test_a_silent_broker_holds_no_caller_up(redis_url: str, own_valkey: EmbeddedServer) -> None:
    """It accepts connections, and never answers."""
    client = AgentClient(redis_url, broker_url=own_valkey.url)
    client.submit("plan", "look", check_agent=False)
    os.kill(own_valkey.pid, signal.SIGSTOP)
    try:
        start = time.monotonic()
        job_id = client.submit("plan", "look", check_agent=False)
        assert time.monotonic() - start < 2 * ERROR_S
    finally:
        os.kill(own_valkey.pid, signal.SIGCONT)
    assert client.get(job_id).status == "queued"
