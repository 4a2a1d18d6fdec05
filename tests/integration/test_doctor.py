"""The doctor at real servers and workers: each planted fault is found, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from api_client.contract import AgentInfo
from api_client.sealing import keyring, new_key
from api_client.specs import make_spec
from api_client.survey import SurveyStore
from tests.support.ciphers import UseKeys
from tests.support.workers import eventually, running
from worker.cli import failures, main
from worker.devserver import ModelServer
from worker.doctor import Finding, Patient, examine
from worker.doctor.model_api import check as check_model
from worker.doctor.model_api import gather as ask_model
from worker.embedded import EmbeddedServer
from worker.settings import Settings
from worker.store.redis import RedisCheckpointStore

Plant = Callable[[Any], dict[str, Any] | None]
"""Plants a fault in a server; returns changed settings, if it is one of those."""


def diagnosis(url: str, **changed: Any) -> list[Finding]:
    """What is found without workers, with these settings."""
    settings = Settings.from_env(redis_url=url, **changed)
    return examine(Patient(settings, workers=False, environment={}))


def config(**values: Any) -> Plant:
    """A fault by ``CONFIG SET``."""

    def plant(client: Any) -> None:
        for name, value in values.items():
            client.config_set(name.replace("_", "-"), value)

    return plant


def user(*rules: str) -> Plant:
    """A fault in what a user may do."""

    def plant(client: Any) -> dict[str, Any]:
        client.execute_command("ACL", "SETUSER", "clerk", "reset", "on", ">pw", *rules)
        host = client.connection_pool.connection_kwargs
        return {"redis_url": f"redis://clerk:pw@127.0.0.1:{host['port']}/0"}

    return plant


def memory_nearly_full(client: Any) -> None:
    """Less is free than a tenth."""
    client.config_set("maxmemory", int(client.info("memory")["used_memory"] * 1.1))


def replica(client: Any) -> None:
    """The server follows another one, which need not answer."""
    client.execute_command("REPLICAOF", "127.0.0.1", "9")


def open_to_all(client: Any) -> None:
    """Every address, no password, no protection."""
    client.config_set("protected-mode", "no")
    client.config_set("bind", "* -::*")


def job_of_another_partition(client: Any) -> None:
    """Somebody runs with more partitions."""
    client.zadd("{sk:3}:due", {"job": 9e15})


def forgotten_job(client: Any) -> None:
    """A job that has been due for long."""
    client.zadd("{sk:0}:due", {"job": 1})


def poison_job(client: Any) -> None:
    """A job whose workers died."""
    client.zadd("{sk:0}:is:poison", {"job": 1})


def old_announcement(client: Any) -> None:
    """An agent whose worker is gone."""
    client.hset("sk:agents", "shop", AgentInfo(name="shop", seen=1).model_dump_json())


def newer_worker(client: Any) -> None:
    """A worker of another version."""
    seconds, _ = client.time()
    info = AgentInfo(name="shop", seen=seconds * 1000, release="9.0.0")
    client.hset("sk:agents", "shop", info.model_dump_json())


def setting(**values: Any) -> Plant:
    """A fault in our own settings."""
    return lambda _: values


FULL = ("+@all", "~*", "&*")
PLANTS: list[tuple[Plant, str, str]] = [
    (config(appendonly="no"), "appendonly", "error"),
    (config(appendfsync="no"), "appendfsync", "error"),
    (config(appendfsync="everysec"), "appendfsync", "warning"),
    (config(maxmemory_policy="allkeys-lru"), "maxmemory-policy", "error"),
    (config(maxmemory_policy="volatile-ttl"), "maxmemory-policy", "error"),
    (memory_nearly_full, "maxmemory", "warning"),
    (config(timeout=10), "timeout", "warning"),
    (config(min_replicas_to_write=1), "min-replicas-to-write", "error"),
    (replica, "STEPKEEPER_REDIS_URL", "error"),
    (open_to_all, "requirepass", "error"),
    (user(*FULL, "-xadd"), "ACL SETUSER", "error"),
    (user("+@all", "&*", "~{sk:*"), "ACL SETUSER", "error"),
    (user(*FULL, "-config"), "ACL SETUSER", "warning"),
    (job_of_another_partition, "STEPKEEPER_PARTITIONS", "error"),
    (forgotten_job, "celery worker", "error"),
    (poison_job, "stepkeeper quarantine", "warning"),
    (old_announcement, "STEPKEEPER_AGENTS", "warning"),
    (newer_worker, "stepkeeper", "error"),
    (setting(wait_replicas=2), "STEPKEEPER_WAIT_REPLICAS", "error"),
    (setting(agents="no.such.module"), "STEPKEEPER_AGENTS", "error"),
    (setting(sweep_s=30, lease_s=5), "STEPKEEPER_SWEEP_S", "warning"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server of this file's own, for its settings are changed."""
    with EmbeddedServer(tmp_path_factory.mktemp("doctor")) as server:
        yield server


@contextmanager
def restored(client: Any) -> Iterator[None]:
    """The server is as it was, afterwards."""
    before = {
        name: client.config_get(name)[name]
        for name in ("appendonly", "appendfsync", "maxmemory-policy", "maxmemory", "timeout",
                     "min-replicas-to-write", "protected-mode", "bind")
    }  # fmt: skip
    try:
        yield
    finally:
        client.execute_command("REPLICAOF", "NO", "ONE")
        for name, value in before.items():
            if client.config_get(name)[name] != value:  # each setting of bind opens the port anew
                client.config_set(name, value)
        client.flushall()
        client.execute_command("ACL", "DELUSER", "clerk")


def test_at_the_server_that_is_shipped_nothing_is_found(server: EmbeddedServer) -> None:
    assert diagnosis(server.url) == []


@pytest.mark.parametrize(("plant", "name", "level"), PLANTS)
def test_a_planted_fault_is_found_by_the_name_of_its_setting(
    server: EmbeddedServer, plant: Plant, name: str, level: str
) -> None:
    with redis.Redis.from_url(server.url, decode_responses=True) as client, restored(client):
        changed = {"redis_url": server.url, **(plant(client) or {})}
        found = diagnosis(changed.pop("redis_url"), **changed)
        assert [(f.setting, f.level) for f in found] == [(name, level)], found


def test_a_server_that_is_away_is_found(own_valkey: EmbeddedServer) -> None:
    url = own_valkey.url
    own_valkey.stop()
    (finding,) = diagnosis(url)
    assert (finding.setting, finding.level) == ("STEPKEEPER_REDIS_URL", "error")


def test_workers_are_asked(redis_url: str, tmp_path: Path) -> None:
    store = RedisCheckpointStore.from_url(redis_url)
    patient = Patient(Settings(redis_url=redis_url), environment={})
    assert [f.setting for f in examine(patient)] == ["celery worker"]
    with running(redis_url) as worker:
        eventually(store.agents, "the worker's announcement")
        assert examine(patient) == []
        (known,) = store.agents()
        store.announce([known.model_copy(update={"queue": "elsewhere"})])
        (finding,) = examine(patient)
        assert (finding.setting, finding.level) == ("--queues", "error")
        assert worker.alive
    elsewhere = Patient(
        Settings(redis_url=redis_url, broker_url="redis://127.0.0.1:1/0"), environment={}
    )
    assert [f.setting for f in examine(elsewhere)] == ["STEPKEEPER_BROKER_URL"]


def test_keys_of_jobs_and_workers_are_compared(redis_url: str, encryption: UseKeys) -> None:
    first, second = new_key(), new_key()
    store = RedisCheckpointStore.from_url(redis_url)
    patient = Patient(Settings(redis_url=redis_url), workers=False, environment={})

    def keys_found() -> list[tuple[str, str]]:
        found = [f for f in examine(patient) if f.area == "encryption"]
        return [(f.setting.removeprefix("STEPKEEPER_ENCRYPTION_"), f.level) for f in found]

    encryption(first)
    store.create(make_spec(job_id="sealed", agent="shop", input="x" * 200))
    with running(redis_url):  # it has this process's environment
        eventually(lambda: [one.keys for one in store.workers()] == [keyring().names], "a beat")
        assert keys_found() == [("REQUIRED", "advice")]
        encryption(f"{second},{first}")
        assert keys_found() == [("KEYS", "error"), ("REQUIRED", "advice")]  # of the worker
    for dead in store.workers():
        store.part(dead.name)
    encryption(second)
    assert keys_found() == [("KEYS", "error"), ("REQUIRED", "advice")]  # of the job
    encryption(f"{first},{second}", required=True)
    assert keys_found() == [("KEYS", "advice")]
    encryption("")
    store.create(make_spec(job_id="clear", agent="shop", input="x"))
    encryption(first, required=True)
    assert keys_found() == [("REQUIRED", "error")]


def test_of_many_jobs_the_oldest_and_the_newest_are_looked_at(
    redis_url: str, encryption: UseKeys
) -> None:
    keys = [new_key() for _ in range(3)]
    store = SurveyStore.from_url(redis_url)
    for number, key in enumerate([*keys, keys[2]]):
        encryption(key)
        store.create(make_spec(job_id=f"job-{number}", agent="shop", input="x"))
    encryption(",".join(keys))
    first, second, third = keyring().names
    found = store.keys_in_use(limit=2)
    assert (dict(found.jobs), found.complete) == ({first: 1, third: 1}, False)
    found = store.keys_in_use()
    assert (dict(found.jobs), found.complete) == ({first: 1, second: 1, third: 2}, True)
    assert found.examples[second] == "job-1"


def test_the_command_says_what_to_change(
    server: EmbeddedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("doctor", "--no-workers", "--redis-url", server.url)
    assert main(words) == failures.OK
    assert capsys.readouterr().out == "nothing found\n"
    with redis.Redis.from_url(server.url, decode_responses=True) as client, restored(client):
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("timeout", "10")
        assert main(words) == failures.FAILED
        error, warning = capsys.readouterr().out.split("\n\n")
        assert error.splitlines() == [
            "error  redis  maxmemory-policy",
            "  maxmemory-policy is allkeys-lru: the server may forget jobs",
            "  → CONFIG SET maxmemory-policy noeviction",
        ]
        assert warning.startswith("warning  redis  timeout\n")
        assert main((*words, "--json")) == failures.FAILED
        value = json.loads(capsys.readouterr().out)
        assert [f["setting"] for f in value["findings"]] == ["maxmemory-policy", "timeout"]
        client.config_set("maxmemory-policy", "noeviction")
        assert main(words) == failures.OK


def test_a_foreign_app_is_checked(
    server: EmbeddedServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "doctored_shop.py").write_text(
        "from celery import Celery\n"
        f"app = Celery('shop', broker={server.url!r}, set_as_current=False)\n"
        "app.conf.task_acks_late = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = ("doctor", "--no-workers", "--redis-url", server.url, "--json")
    assert main((*words, "--app", "doctored_shop")) == failures.FAILED
    settings = {f["setting"] for f in json.loads(capsys.readouterr().out)["findings"]}
    assert {"task_acks_late", "result_backend", "worker_prefetch_multiplier"} <= settings
    assert main((*words, "--app", "no_such_app")) == failures.REFUSED
    assert "no_such_app" in capsys.readouterr().err


def test_the_models_api_is_asked() -> None:
    def settings_found(**environment: str) -> list[str]:
        return [f.setting for f in check_model(ask_model(environment))]

    with ModelServer("hello") as server:
        given = {"LLM_BASE_URL": server.base_url, "LLM_API_KEY": "k", "LLM_MODEL": "m"}
        assert settings_found(**given) in ([], ["LLM_MODEL"])
        assert settings_found(**{**given, "LLM_API_KEY": ""})[0] == "LLM_API_KEY"
    assert settings_found(**given) == ["LLM_BASE_URL"]
    assert settings_found(**{**given, "LLM_BASE_URL": "file:///etc/passwd"}) == ["LLM_BASE_URL"]
