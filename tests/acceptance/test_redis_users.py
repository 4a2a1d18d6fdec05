"""The Redis users that are shipped: each can do all of its part, and none of the others'.

One real server with ``deploy/redis`` as it is, one real worker as the user ``worker``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from celery.exceptions import CeleryError
from kombu.exceptions import OperationalError
from redis.exceptions import NoPermissionError

from api_client import AgentClient
from api_client.admin import AdminStore
from api_client.contract import JobStatus
from api_client.errors import StoreUnavailable
from api_client.keys import Keys
from api_client.sealing import new_key
from tests.support.ciphers import UseKeys
from tests.support.lab import plain_app
from tests.support.nursery import Nursery
from tests.support.shipped import ShippedRedis, users
from tests.support.workers import RunningWorker, eventually
from worker.celery_config import ours
from worker.cli import main
from worker.flow.base import Limit
from worker.settings import Settings
from worker.store.redis import RedisCheckpointStore
from worker.web.keys import KeyRing
from worker.web.limits import RateLimit
from worker.web.parts import Parts
from worker.web.settings import WebSettings

CLIENTS = ("client", "reviewer", "serve")
LOOKING = ("client", "reviewer", "monitor", "serve")


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShippedRedis]:
    """The server of this file."""
    with ShippedRedis(tmp_path_factory.mktemp("shipped")) as server:
        yield server


@pytest.fixture(scope="module")
def worker(
    shipped: ShippedRedis, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningWorker]:
    """A worker that runs the test agents, and logs in as ``worker``."""
    folder = tmp_path_factory.mktemp("worker")
    (folder / "gates").mkdir()
    env = {"TEST_GATES": str(folder / "gates")}
    worker = nursery.start(shipped.url("worker"), app="worker.app", name="w1@acl", env=env)
    try:
        yield worker.wait_ready()
    finally:
        worker.kill()


@pytest.fixture(autouse=True)
def _refusals(shipped: ShippedRedis, worker: RunningWorker) -> None:
    """Every test begins with an announced agent."""
    store = AdminStore.from_url(shipped.url("monitor"))
    eventually(store.agents, "the agents are announced", 10)


def client_of(shipped: ShippedRedis, user: str) -> AgentClient:
    """Our client, logged in as one of the users."""
    return AgentClient(shipped.url(user))


def paused(shipped: ShippedRedis) -> str:
    """A job that waits for a person."""
    client = client_of(shipped, "client")
    job = client.submit("plan", "ask look")
    eventually(lambda: client.get(job).status is JobStatus.PAUSED, "the job pauses")
    return job


def answer(client: AgentClient, job: str) -> None:
    """Answer a job's question."""
    client.signal(job, {"kind": "answer", "value": "yes", "by": "anna"})


@contextmanager
def refused(act: str = "") -> Iterator[None]:
    """The server refuses, and our error says what is missing."""
    with pytest.raises(StoreUnavailable) as caught:
        yield
    text = str(caught.value)
    assert "refuses: NOPERM" in text
    assert "deploy/redis/users.acl" in text
    assert f"the permission to {act}" in text if act else "command or key" in text


# --- each of them can do its part ----------------------------------------------------------------


def test_a_worker_is_refused_nothing(shipped: ShippedRedis, worker: RunningWorker) -> None:
    """Through a pause, a chord with results, sub-steps, an announcement, a sweep and a revoke."""
    plain = plain_app(shipped.url("worker"))
    first = plain.signature("agent.plan", args=["look"])
    second = plain.signature("agent.plan", args=["put pay"])
    from celery import chord

    done = chord([first, second])(plain.signature("agent.plan", args=["look"], immutable=True))
    assert done.get(timeout=30) == "look 1"
    job = paused(shipped)
    answer(client_of(shipped, "reviewer"), job)
    assert client_of(shipped, "client").result(job).endswith("look 2")
    plain.control.revoke(paused(shipped))
    refusals = "NOPERM|no permissions|No permissions"
    assert not [line for line in worker.lines if any(word in line for word in refusals.split("|"))]
    with shipped.client("worker") as own, pytest.raises(NoPermissionError):
        own.execute_command("ACL", "LOG")
    plain.close()


def test_a_client_submits_follows_and_cancels(shipped: ShippedRedis, worker: RunningWorker) -> None:
    client = client_of(shipped, "client")
    before = len(worker.lines)
    job = client.submit("plan", "look put", idempotency_key=uuid.uuid4().hex)
    assert client.result(job) == "look 1; put 2"
    assert client.messages(job)[-1]["content"] == "look 1; put 2"
    assert [event.kind for event in client.trace(job)][-1] == "finished"
    assert [*client.live(job)] == []
    assert {info.name for info in client.agents()} >= {"plan"}
    shared = [client.submit("plan", "look", tenant="acme", labels=["sales"]) for _ in range(3)]
    assert [client.result(one) for one in shared] == ["look 1"] * 3
    waiting = paused(shipped)
    client.message(waiting, "Mind the rain.", by="bob")
    client.cancel(waiting, by="bob")
    assert client.get(waiting).status is JobStatus.CANCELLED
    delayed = client.submit("plan", "look", delay_s=3600)
    assert client.get(delayed).status is JobStatus.WAITING
    client.cancel(delayed)
    # the hint itself was sent: the worker took the job up without waiting for a sweep
    assert any(job in line for line in worker.lines[before:])


def test_a_client_may_be_a_celery_app_without_our_package(
    shipped: ShippedRedis, worker: RunningWorker
) -> None:
    plain = plain_app(shipped.url("client"))
    plain.conf.broker_transport_options = {"socket_timeout": 5}
    assert plain.send_task("agent.plan", args=["look"]).get(timeout=30) == "look 1"
    plain.close()


def test_a_reviewer_reads_the_inbox_and_answers(
    shipped: ShippedRedis, worker: RunningWorker
) -> None:
    job = paused(shipped)
    reviewer = client_of(shipped, "reviewer")
    assert job in {view.job_id for view in reviewer.inbox(agent="plan")}
    assert reviewer.get(job).pause is not None
    answer(reviewer, job)
    assert reviewer.result(job).endswith("look 2")
    assert reviewer.messages(job)
    other = paused(shipped)
    reviewer.message(other, "One moment.", by="anna")
    assert reviewer.deliveries() == []
    assert {event.event for event in reviewer.follow(after="", for_s=0)} >= {"paused", "resumed"}


Look = Callable[..., tuple[int, str]]


@pytest.fixture
def look(
    shipped: ShippedRedis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Look:
    """Runs one of our commands as a user that only watches: its exit code and what it prints."""
    monkeypatch.setenv("STEPKEEPER_WATCH_ONLY", "true")

    def run(user: str, *words: str) -> tuple[int, str]:
        code = main((*words, "--redis-url", shipped.url(user)))
        printed = capsys.readouterr()
        assert printed.err == "", words
        return code, printed.out

    return run


def test_a_worker_changes_keys_and_is_told_what_it_may_not_look_for(
    tmp_path: Path, encryption: UseKeys, capsys: pytest.CaptureFixture[str]
) -> None:
    with ShippedRedis(tmp_path) as own:
        encryption("")
        client_of(own, "client").submit("plan", "look", check_agent=False)
        encryption(new_key())
        assert main(["rekey", "--redis-url", own.url("worker")]) == 0
    told = capsys.readouterr().out
    assert "1 jobs, 1 encrypted anew" in told
    assert "may not SCAN" in told


def test_a_monitor_sees_everything(
    shipped: ShippedRedis, worker: RunningWorker, look: Look
) -> None:
    job = paused(shipped)
    code, text = look("monitor", "top", "--once", "--json")
    assert [worker["node"] for worker in json.loads(text)["workers"]] == ["w1@acl"]
    code, text = look("monitor", "ping", "--name", "w1@acl", "--json")
    assert (code, json.loads(text)["answers"]) == (0, True)
    code, text = look("monitor", "ping", "--name", "w2@acl", "--within", "0.5", "--json")
    assert (code, json.loads(text)["answers"]) == (1, False)
    code, text = look("monitor", "durability", "--json")
    assert json.loads(text)["survives"] == "power_loss"
    assert look("monitor", "tenants")[0] == look("monitor", "limits")[0] == 0
    assert "plan" in look("monitor", "backlogs")[1]
    for words in (("jobs", "--status", "paused"), ("inbox",), ("redis-keys", job)):
        code, text = look("monitor", *words)
        assert code == 0
        assert job in text
    assert "paused" in look("monitor", "trace", job)[1]
    survey = AdminStore.from_url(shipped.url("monitor")).survey()
    assert survey.count(JobStatus.PAUSED) >= 1


def test_the_doctor_finds_nothing_on_what_is_shipped(worker: RunningWorker, look: Look) -> None:
    assert look("monitor", "doctor", "--no-writes") == (0, "nothing found\n")
    assert look("worker", "doctor") == (0, "nothing found\n")
    code, text = look("monitor", "doctor", "--no-workers")
    assert code == 1
    assert "this user may not do what jobs need" in text


def test_the_server_does_both_and_keeps_keys(shipped: ShippedRedis, worker: RunningWorker) -> None:
    parts = Parts.open(shipped.url("serve"), WebSettings())
    parts.ping()
    stored, key = parts.ring.create("anna", ["review"])
    assert parts.ring.check(key) is not None
    parts.ring.revoke(stored.id)
    assert parts.limit.take("anna") == 0.0
    job = parts.client.submit("plan", "ask look")
    eventually(lambda: parts.client.get(job).status is JobStatus.PAUSED, "the job pauses")
    answer(parts.client, job)
    assert parts.client.result(job).endswith("look 2")
    eventually(lambda: parts.client.get(job).published, "the outcome is published")
    parts.client.set_backlog(1000, agent="plan")
    [plan] = [one for one in parts.client.backlogs() if one.name == "plan"]
    assert (plan.cap, plan.set_by) == (1000, "command")
    parts.ledger.set_limit("api.test/small", Limit(rpm=5))
    assert [model.key for model in parts.models()] == ["api.test/small"]
    parts.ledger.set_limit("api.test/small", None)
    fork = parts.store.fork(job)
    parts.client.hint(fork)
    assert parts.client.result(fork.job_id)
    parts.store.purge(job)
    parts.close()


# --- and nothing of the others' ------------------------------------------------------------------


def _take(client: Any) -> Any:
    return client.rpop("celery")


def _raw(*words: Any) -> Callable[[Any], Any]:
    return lambda client: client.execute_command(*words)


EVERYBODY = ("worker", "client", "reviewer", "monitor", "serve")
NOT_EVEN_THE_SERVER = ("client", "reviewer", "monitor", "serve")
FORBIDDEN: dict[str, tuple[tuple[str, ...], Callable[[Any], Any]]] = {
    "administer": (EVERYBODY, _raw("ACL", "LIST")),
    "read the users' digests": (EVERYBODY, _raw("ACL", "GETUSER", "worker")),
    "change settings": (EVERYBODY, _raw("CONFIG", "SET", "appendonly", "no")),
    "forget everything": (EVERYBODY, _raw("FLUSHALL")),
    "forget the scripts": (EVERYBODY, _raw("SCRIPT", "FLUSH")),
    "list all keys": (EVERYBODY, _raw("KEYS", "*")),
    "walk through all keys": (EVERYBODY, _raw("SCAN", "0")),
    "stop the server": (EVERYBODY, _raw("SHUTDOWN", "NOSAVE")),
    "see others' commands": (EVERYBODY, _raw("MONITOR")),
    "cut others off": (EVERYBODY, _raw("CLIENT", "KILL", "TYPE", "normal")),
    "use another key": (EVERYBODY, _raw("SET", "somebody:elses", "1")),
    "load code for everybody": (EVERYBODY, _raw("FUNCTION", "LIST")),
    "take messages": (NOT_EVEN_THE_SERVER, _take),
    "read messages": (NOT_EVEN_THE_SERVER, _raw("LRANGE", "celery", "0", "-1")),
    "forge a result": (NOT_EVEN_THE_SERVER, _raw("SET", "celery-task-meta-x", "{}")),
    "announce an agent": (NOT_EVEN_THE_SERVER, _raw("HSET", "sk:agents", "shop", "{}")),
    "give workers commands": (NOT_EVEN_THE_SERVER, _raw("PUBLISH", "/0.celery.pidbox", "{}")),
    "hear workers' commands": (NOT_EVEN_THE_SERVER, _raw("SUBSCRIBE", "/0.celery.pidbox")),
    "forge events": (NOT_EVEN_THE_SERVER, _raw("PUBLISH", "/0.celeryev/task.sent", "{}")),
    "read the API keys": (("client", "reviewer", "monitor"), _raw("HGETALL", "sk:apikeys")),
    "make an API key": (("client", "reviewer", "monitor"), _raw("HSET", "sk:apikeys", "a", "{}")),
    "write a job": (("monitor",), _raw("HSET", "{sk:0}:j:x", "status", "failed")),
    "forget a job": (("monitor",), _raw("DEL", "{sk:0}:j:x")),
    "run a script on jobs": (("monitor",), _raw("EVAL", "return 1", "1", "{sk:0}:j:x")),
    "hint": (("monitor",), _raw("LPUSH", "celery", "{}")),
    "read the server's settings": (("client", "reviewer"), _raw("CONFIG", "GET", "bind")),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_is_nobodys_part_is_refused(shipped: ShippedRedis, what: str) -> None:
    whose, attempt = FORBIDDEN[what]
    for user in whose:
        with shipped.client(user) as client, pytest.raises(NoPermissionError):
            attempt(client)


def test_a_client_does_not_answer_operate_or_run(
    shipped: ShippedRedis, worker: RunningWorker
) -> None:
    job = paused(shipped)
    url = shipped.url("client")
    with refused("signal"):
        answer(client_of(shipped, "client"), job)
    with refused("operate"):
        AdminStore.from_url(url).purge(job)
    with refused("operate"):
        client_of(shipped, "client").set_backlog(1, agent="plan")
    with refused("run"):
        _claim(url, job)
    with refused("run"):
        RedisCheckpointStore.from_url(url).sweep(limit=10, grace_ms=1, cap_ms=1)
    assert client_of(shipped, "client").get(job).status is JobStatus.PAUSED


def test_a_reviewer_does_not_submit_cancel_or_run(
    shipped: ShippedRedis, worker: RunningWorker
) -> None:
    job = paused(shipped)
    url = shipped.url("reviewer")
    reviewer = client_of(shipped, "reviewer")
    with refused("submit"):
        reviewer.submit("plan", "look")
    with refused("cancel"):
        reviewer.cancel(job)
    with refused("operate"):
        AdminStore.from_url(url).purge(job)
    with refused("run"):
        _claim(url, job)
    assert reviewer.get(job).status is JobStatus.PAUSED


def test_a_monitor_changes_nothing(shipped: ShippedRedis, worker: RunningWorker) -> None:
    job = paused(shipped)
    url = shipped.url("monitor")
    monitor = client_of(shipped, "monitor")
    acts: dict[str, Callable[[], object]] = {
        "submit": lambda: monitor.submit("plan", "look"),
        "cancel": lambda: monitor.cancel(job),
        "signal": lambda: answer(monitor, job),
        "tell": lambda: monitor.message(job, "hello", by="mallory"),
        "operate": lambda: AdminStore.from_url(url).purge(job),
        "run": lambda: _claim(url, job),
    }
    for act, attempt in acts.items():
        with refused(act):
            attempt()
    with refused():
        KeyRing(redis.Redis.from_url(url)).create("mallory", ["operate"])
    with refused():
        RateLimit(redis.Redis.from_url(url), 1, 1).take("mallory")
    assert monitor.get(job).status is JobStatus.PAUSED


def test_a_monitor_asks_workers_and_commands_none(
    shipped: ShippedRedis, worker: RunningWorker
) -> None:
    """Over the mailbox that it may use, workers take no command."""
    app = Celery("watcher", set_as_current=False)
    app.conf.update(ours(Settings(redis_url=shipped.url("monitor"), watch_only=True)))
    inspect: Any = app.control.inspect(timeout=5, limit=1)
    assert list(inspect.ping()) == ["w1@acl"]
    assert list(inspect.stats()) == ["w1@acl"]
    assert inspect.active() == {"w1@acl": []}
    app.control.broadcast("shutdown")
    job = paused(shipped)
    app.control.revoke(job)
    assert inspect.ping()  # it has heard the others before this
    assert worker.count("KeyError('shutdown')") == 1
    assert worker.count("KeyError('revoke')") == 1
    assert worker.alive
    assert client_of(shipped, "client").get(job).status is JobStatus.PAUSED
    everything = Celery("intruder", broker=shipped.url("monitor"), set_as_current=False)
    with pytest.raises((CeleryError, OperationalError, NoPermissionError)):
        everything.control.broadcast("shutdown")
    for one in (app, everything):
        one.close()


def _claim(url: str, job: str) -> None:
    store = RedisCheckpointStore.from_url(url)
    store.claim(job, owner="mallory/1/1/", nonce="n", lease_ms=1000, max_tries=5)


# --- the file itself -----------------------------------------------------------------------------


def test_nobody_has_a_password_before_somebody_gives_one() -> None:
    assert list(users()) == ["default", *EVERYBODY]
    # Nobody can be it; Redis is, while it reads its append-only file, and leaves out of that what
    # the user may not do: every script's work, if it may do nothing.
    assert users()["default"] == ["off", "resetpass", "~*", "&*", "+@all"]
    for rules in users().values():
        assert rules[1] == "resetpass"
        assert not [rule for rule in rules if rule[0] in "#>" or rule == "nopass"]


def test_a_user_without_a_password_cannot_log_in(tmp_path: Path) -> None:
    server = ShippedRedis(tmp_path)
    forgotten = server.passwords.pop("client")
    with server:
        server.passwords["client"] = forgotten
        for url in (server.url("client"), f"redis://127.0.0.1:{server.port}/0"):
            with redis.Redis.from_url(url) as client, pytest.raises(redis.RedisError):
                client.ping()
        printed = server.log.read_text()
        environment = Path(f"/proc/{server._process.pid}/environ").read_bytes()  # type: ignore[union-attr]
        for password in server.passwords.values():
            assert password not in printed
            assert password.encode() not in environment


def test_every_job_key_that_there_is_belongs_to_somebody(
    shipped: ShippedRedis, worker: RunningWorker
) -> None:
    """Names of keys that begin like a permission's would be closed to clients by the pattern."""
    keys = Keys(0)
    names = [*keys.of_telling("x"), keys.posted, keys.index(JobStatus.PAUSED), keys.live("x")]
    with shipped.client("client") as client:
        for name in names:
            client.exists(name)
