"""Secrets of the context and the worker's keys, looked for in everything a run leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from celery.exceptions import TaskRevokedError

from api_client import AgentClient
from api_client.errors import JobFailed
from api_client.sealing import new_key
from tests.support.ciphers import UseKeys
from tests.support.flower import Flower
from tests.support.lab import Lab
from tests.support.leaky_agents import SECRET
from tests.support.nursery import Nursery
from tests.support.receiver import Receiver, receiving
from tests.support.scrape import Scrape, metrics_url
from tests.support.signers import Signer
from tests.support.web import WebServer
from tests.support.workers import eventually
from worker.celery_config import bare_app
from worker.cli import main
from worker.devserver import Fault, ModelServer
from worker.embedded import EmbeddedServer
from worker.models.scripted import ScriptedModel, act, say
from worker.settings import Settings

MODEL_KEY = "sk-live-0123456789abcdefghijklmnop"
TOOLS = (
    *("raises", "returns", "fails", "retries", "shows_itself", "unwritable", "hangs", "dies"),
    *("shows_environment", "raises_environment"),
)
SCRIPT = [
    *(act(f"try {name}", (name, {})) for name in TOOLS),
    act("guess it", ("raises", {"vault": {"api_key": "guess"}})),
    act("no JSON", ("raises", "{'vault': ")),
    act("ask", ("hand_to_human", {"reason": "what now?"})),
    say("done"),
]


def everything_stored(lab: Lab) -> str:
    """All keys and values of the server: the store, the broker, the result backend."""
    texts = []
    for key in lab.redis.scan_iter("*"):
        texts.append(key.decode())
        texts.append(repr(_value(lab, key)))
    return "\n".join(texts)


def _value(lab: Lab, key: bytes) -> Any:
    client: Any = lab.redis
    readers = {
        b"none": str,  # it expired meanwhile
        b"string": lambda: client.get(key),
        b"hash": lambda: client.hgetall(key),
        b"list": lambda: client.lrange(key, 0, -1),
        b"zset": lambda: client.zrange(key, 0, -1),
        b"set": lambda: client.smembers(key),
        b"stream": lambda: client.xrange(key),
    }
    read: Any = readers[client.type(key)]
    return read()


def test_no_secret_in_keys_logs_traces_errors_or_requests(lab: Lab) -> None:
    with ModelServer(ScriptedModel(SCRIPT)) as server:
        env = {
            "STEPKEEPER_AGENTS": "tests.support.leaky_agents",
            "LLM_BASE_URL": server.base_url,
            "LLM_API_KEY": MODEL_KEY,
            "LLM_MODEL": "m",
        }
        worker = lab.worker(env=env)
        client = AgentClient(lab.url)
        job_id = client.submit("leaky", "go", check_agent=False)
        lab.wait_status(job_id, "paused", timeout_s=60)
        client.signal(job_id, {"kind": "answer", "value": "go on"})
        assert client.result(job_id, 60) == "done"
        cancelled = client.submit("leaky", "go", check_agent=False)
        lab.wait_status(cancelled, "paused", timeout_s=60)
        client.cancel(cancelled)
        with pytest.raises(TaskRevokedError):
            lab.plain.AsyncResult(cancelled).get(timeout=30)
        server.always = Fault.status(401, f"bad key {MODEL_KEY}")
        refused = client.submit("leaky", "go", check_agent=False)
        lab.wait_status(refused, "paused")
        server.always = Fault.body({"choices": []})
        empty = client.submit("leaky", "go", check_agent=False)
        client.cancel(empty)
        bodies = json.dumps(server.bodies)
    traces = "\n".join(str(event) for event in client.trace(job_id))
    assert len([m for m in client.messages(job_id) if m["role"] == "tool"]) == len(SCRIPT) - 1
    for where, text in {
        "Redis": everything_stored(lab),
        "the worker's log": worker.log,
        "the trace": traces,
        "requests to the model": bodies,
        "the refusal": str(client.get(refused).pause),
    }.items():
        assert SECRET not in text, where
        assert MODEL_KEY not in text, where


def test_a_failure_is_told_without_the_key(lab: Lab) -> None:
    with ModelServer(ScriptedModel([say("x")])) as server:
        server.always = Fault.status(404, f"no model for {MODEL_KEY}")
        env = {
            "STEPKEEPER_AGENTS": "tests.support.leaky_agents",
            "LLM_BASE_URL": server.base_url,
            "LLM_API_KEY": MODEL_KEY,
            "LLM_MODEL": "m",
        }
        lab.worker(env=env)
        job_id = lab.client.submit("leaky", "go", check_agent=False)
        view = lab.wait_status(job_id, "paused")
        assert view.pause is not None
        assert "no model for" in view.pause.question
        assert MODEL_KEY not in view.pause.question
        lab.client.cancel(job_id, note="give up")
        with pytest.raises((JobFailed, TaskRevokedError)) as told:
            lab.plain.AsyncResult(job_id).get(timeout=30)
        assert MODEL_KEY not in str(told.value)


# --- every secret of a deployment, wherever its operators and users look --------------------------

PLAIN_KEY = "model-key-without-a-shape-51c0ffee"
REDIS_PASSWORD = "redis-pass-51c0ffee"
WEBHOOK_SECRET = "hmac-secret-51c0ffee"
FLOWER_PAGES = (
    *("/", "/tasks", "/broker", "/metrics", "/api/tasks", "/api/workers?refresh=1"),
    *("/worker/w1@test", "/task/{job}", "/api/task/info/{job}", "/api/queues/length"),
)


class Deployment:
    """A server with a password, a worker with every secret there is, and what it has done."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.encryption, self.signer = new_key(), Signer(folder, "ours", folder / "accepted")
        self.secrets = {
            "the model's key": PLAIN_KEY,
            "Redis's password": REDIS_PASSWORD,
            "the webhook secret": WEBHOOK_SECRET,
            "the key for encryption": self.encryption,
            "the key for signing": self.signer.key.read_text().splitlines()[5],
            "hidden context": SECRET,
        }

    def env(self, server: ModelServer, receiver: Receiver) -> dict[str, str]:
        """What the worker is told from outside."""
        return {
            "STEPKEEPER_REDIS_URL": self.lab.url,
            "STEPKEEPER_AGENTS": "tests.support.leaky_agents",
            "STEPKEEPER_ENCRYPTION_KEYS": self.encryption,
            "STEPKEEPER_ENCRYPTION_REQUIRED": "true",
            "STEPKEEPER_WEBHOOK_URL": receiver.url,
            "STEPKEEPER_WEBHOOK_SECRET": WEBHOOK_SECRET,
            "STEPKEEPER_METRICS_PORT": "0",
            **self.signer.env,
            "LLM_BASE_URL": server.base_url,
            "LLM_API_KEY": PLAIN_KEY,
            "LLM_MODEL": "m",
        }

    def assert_silent(self, told: Mapping[str, str]) -> None:
        """None of it stands in any of these texts."""
        found = [
            f"{what} in {where}: {_around(text, secret)}"
            for where, text in told.items()
            for what, secret in self.secrets.items()
            if secret in text
        ]
        assert found == []


def _around(text: str, secret: str) -> str:
    at = text.index(secret)
    return text[max(0, at - 200) : at + len(secret) + 20]


@pytest.fixture
def guarded(nursery: Nursery, own_valkey: EmbeddedServer, tmp_path: Path) -> Iterator[Deployment]:
    """A deployment on a server with a password, without a worker yet."""
    with redis.Redis.from_url(own_valkey.url) as client:
        client.config_set("requirepass", REDIS_PASSWORD)
    folder = tmp_path / "lab"
    folder.mkdir()
    url = own_valkey.url.replace("redis://", f"redis://:{REDIS_PASSWORD}@")
    lab = Lab(nursery, url, folder)
    yield Deployment(lab, tmp_path)
    lab.redis.config_set("requirepass", "")
    lab.close()


def test_planted_secrets_stand_nowhere_that_people_look(
    guarded: Deployment,
    encryption: UseKeys,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    lab, told = guarded.lab, dict[str, str]()
    with ModelServer(ScriptedModel(SCRIPT)) as server, receiving() as receiver:
        env = guarded.env(server, receiver)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        encryption(guarded.encryption, required=True)
        with Flower(lab.url, tmp_path, app="worker.app") as flower, WebServer(lab.url) as web:
            worker = lab.worker(env=env)
            key = web.key()
            guarded.secrets["an API key"] = key
            api = httpx.Client(base_url=web.url, headers={"Authorization": f"Bearer {key}"})
            with api:
                job_id = submit(api, "leaky")
                lab.wait_status(job_id, "paused", timeout_s=60)
                lab.client.signal(job_id, {"kind": "answer", "value": "go on"})
                assert lab.client.result(job_id, 60) == "done"
                broken = submit(api, "spilling")
                with pytest.raises(JobFailed) as failed:
                    lab.client.result(broken, 60)
                server.always = Fault.status(401, f"bad key {PLAIN_KEY}")
                refused = submit(api, "leaky")
                lab.wait_status(refused, "paused")
                jobs = (job_id, broken, refused)
                for job in jobs:
                    told[f"HTTP of {job}"] = api.get(f"/v1/jobs/{job}").text
                    told[f"HTTP trace of {job}"] = api.get(f"/v1/jobs/{job}/trace").text
                    told[f"HTTP messages of {job}"] = api.get(f"/v1/jobs/{job}/messages").text
            lab.wait_published(broken)
            eventually(lambda: len(receiver.got) >= 3, "announcements")
            flower.wait_state(broken, "FAILURE")
            for page in FLOWER_PAGES:
                told[f"Flower's {page}"] = flower.get(page.format(job=broken))
            told["/metrics"] = Scrape(metrics_url(worker)).text
            main(["doctor", "--model", "--json", "--redis-url", lab.url])
            encryption(other := new_key())
            guarded.secrets["another key"] = other
            main(["doctor", "--json", "--redis-url", lab.url])
            encryption(guarded.encryption, required=True)
            told["the doctor's JSON"] = capsys.readouterr().out
    for job in jobs:
        told[f"the trace of {job}"] = "\n".join(str(e) for e in lab.client.trace(job))
        told[f"the messages of {job}"] = json.dumps(lab.client.messages(job))
        told[f"the view of {job}"] = lab.client.get(job).model_dump_json()
    app: Any = bare_app(Settings.from_env(redis_url=lab.url))
    told["the result"] = repr(app.backend.get_task_meta(broken))
    told["the failure"] = str(failed.value)
    told["requests to the model"] = json.dumps(server.bodies)
    told["what webhooks got"] = repr(receiver.got)
    told["the worker's log"] = worker.log
    told["Flower's log"] = flower.log
    told["this process's log"] = caplog.text
    told["Redis"] = everything_stored(lab)
    # each text is there, and is what it should be
    assert "STEPKEEPER_METRICS_PORT=0" in told[f"the messages of {job_id}"]
    assert "STEPKEEPER_METRICS_PORT=0" in told["the failure"]
    assert "STEPKEEPER_METRICS_PORT=0" in told["the result"]
    assert "w1@test" in told["Flower's /api/workers?refresh=1"]
    assert broken in told["Flower's /api/tasks"]
    assert "stepkeeper_" in told["/metrics"]
    assert "STEPKEEPER_ENCRYPTION_KEYS" in told["the doctor's JSON"]
    assert "bad key" in told[f"the view of {refused}"]
    assert len(receiver.got) >= 3
    guarded.assert_silent(told)


def submit(api: httpx.Client, agent: str) -> str:
    """A job by HTTP."""
    response = api.post("/v1/jobs", json={"agent": agent, "input": "go"})
    assert response.status_code in (200, 201, 202), response.text
    return str(response.json()["job_id"])


def test_errors_name_no_secret(
    guarded: Deployment, encryption: UseKeys, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = guarded.lab
    encryption(guarded.encryption)
    job_id = lab.client.submit("plan", "look", check_agent=False)
    wrong = lab.url.replace(REDIS_PASSWORD, "wrong-pass-51c0ffee")
    away = f"redis://:{REDIS_PASSWORD}@127.0.0.1:1/0"
    guarded.secrets["a wrong password"] = "wrong-pass-51c0ffee"
    for url in (wrong, away):
        for words in (["show", job_id], ["doctor"], ["rekey"], ["jobs"]):
            assert main([*words, "--redis-url", url]) != 0
    other = new_key()
    guarded.secrets["another key"] = other
    encryption(other)
    assert main(["show", job_id, "--redis-url", lab.url]) != 0
    assert main(["rekey", "--redis-url", lab.url]) != 0
    broken = f"{other[:-4]}51c0ffee"
    guarded.secrets["a key that is none"] = broken
    encryption(broken)
    assert main(["show", job_id, "--redis-url", lab.url]) != 0
    printed = capsys.readouterr()
    assert "STEPKEEPER_ENCRYPTION_KEYS" in printed.out + printed.err
    guarded.assert_silent({"output": printed.out, "errors": printed.err})
