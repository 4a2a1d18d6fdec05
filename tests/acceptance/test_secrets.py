"""Secrets of the context and the worker's keys, looked for in everything a run leaves behind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError

from api_client import AgentClient
from api_client.errors import JobFailed
from tests.support.lab import Lab
from tests.support.leaky_agents import SECRET
from worker.devserver import Fault, ModelServer
from worker.models.scripted import ScriptedModel, act, say

MODEL_KEY = "sk-live-0123456789abcdefghijklmnop"
TOOLS = ("raises", "returns", "fails", "retries", "shows_itself", "unwritable", "hangs", "dies")
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
