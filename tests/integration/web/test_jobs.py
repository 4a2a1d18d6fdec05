"""Submitting jobs over HTTP, and asking where they stand."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.paused import ended_job, paused_job
from tests.support.web import TASK, WebServer, problem


def test_a_job_is_submitted_and_found(web: WebServer, api: httpx.Client) -> None:
    done = api.post("/v1/jobs", json={**TASK, "labels": ["support"], "metadata": {"customer": 7}})
    assert done.status_code == 201, done.text
    job_id = done.json()["job_id"]
    assert done.headers["location"] == done.json()["url"] == f"/v1/jobs/{job_id}"
    job = api.get(done.headers["location"]).json()
    assert (job["status"], job["agent"], job["labels"]) == ("queued", "shop", ["support"])
    assert job["input"] == TASK["input"]
    assert "metadata" not in job
    assert web.store.read(job_id).spec.metadata == {"customer": 7}
    assert web.parts.redis.llen("celery") == 1


@pytest.mark.parametrize("key", ['"8e03978e"', "8e03978e", '"with \\"quotes\\""'])
def test_one_idempotency_key_is_one_job(web: WebServer, api: httpx.Client, key: str) -> None:
    """G2."""
    headers = {"Idempotency-Key": key}
    with ThreadPoolExecutor(10) as pool:
        done = list(pool.map(lambda _: api.post("/v1/jobs", json=TASK, headers=headers), range(20)))
    assert {response.status_code for response in done} == {201}
    assert len({response.text for response in done}) == 1
    assert web.store.count("queued") == 1  # type: ignore[arg-type]
    other = {**TASK, "input": "something else"}
    refused = api.post("/v1/jobs", json=other, headers=headers)
    assert TASK["input"] not in problem(refused, 422, "key-reused")["detail"]


def test_quotes_around_an_idempotency_key_are_its_spelling_only(api: httpx.Client) -> None:
    one = api.post("/v1/jobs", json=TASK, headers={"Idempotency-Key": "abc"})
    same = api.post("/v1/jobs", json=TASK, headers={"Idempotency-Key": '"abc"'})
    assert one.json() == same.json()


def test_tenants_do_not_share_idempotency_keys(web: WebServer) -> None:
    """G2."""
    clients = [web.client(web.key("submit", tenant=name)) for name in ("north", "south")]
    headers = {"Idempotency-Key": "same"}
    ids = {
        client.post("/v1/jobs", json=TASK, headers=headers).json()["job_id"] for client in clients
    }
    assert len(ids) == 2


@pytest.mark.parametrize("key", ['""', '"open', "with blank", '"' + 256 * "x" + '"', "ä"])
def test_an_idempotency_key_of_another_form_is_refused(api: httpx.Client, key: str) -> None:
    headers = [(b"Idempotency-Key", key.encode("latin-1"))]
    problem(api.post("/v1/jobs", json=TASK, headers=headers), 400, "bad-request")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"input": None}, "body"),
        ({"agent": "no such"}, "body.agent"),
        ({"agent": "shpo"}, "body.agent"),
        ({"labels": "support"}, "body.labels"),
        ({"retention_s": 0}, "body.retention_s"),
        ({"delay_s": -1}, "body.delay_s"),
        ({"colour": "red"}, "body.colour"),
    ],
)
def test_what_is_wrong_with_a_job_is_told_by_field(
    api: httpx.Client, change: dict[str, Any], field: str
) -> None:
    body = problem(api.post("/v1/jobs", json={**TASK, **change}), 422, "invalid")
    assert [error["field"] for error in body["errors"]] == [field]
    assert all(error["detail"] for error in body["errors"])


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"agent": "shop", "input": NaN}', b'{"agent":"shop","input":"\\ud800"}', b"\xff"],
)
def test_what_is_no_json_is_refused(api: httpx.Client, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    problem(api.post("/v1/jobs", content=body, headers=headers), 400, "bad-request")


def test_json_without_an_end_to_its_depth_is_refused(api: httpx.Client) -> None:
    body = b'{"agent":"shop","input":' + b"[" * 100_000
    headers = {"Content-Type": "application/json"}
    problem(api.post("/v1/jobs", content=body, headers=headers), 400, "bad-request")


@pytest.mark.parametrize("job_id", ["nobody", "not%20a%20job", "..%2f..%2fetc"])
@pytest.mark.parametrize("path", ["", "/result", "/messages", "/events"])
def test_an_unknown_job_is_not_there_at_once(api: httpx.Client, job_id: str, path: str) -> None:
    """G1."""
    response = api.get(f"/v1/jobs/{job_id}{path}", params={"wait": 20})
    assert response.status_code == 404
    assert response.elapsed.total_seconds() < 5


def test_a_long_poll_answers_when_the_job_needs_a_person(web: WebServer, api: httpx.Client) -> None:
    """G4."""
    job_id = web.job()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(api.get, f"/v1/jobs/{job_id}", params={"wait": 20})
        paused_job(web.store, job_id)
        answer = asked.result(20)
    assert answer.json()["status"] == "paused"
    assert answer.json()["pause"]["question"] == "May I?"
    assert answer.elapsed.total_seconds() < 10


def test_a_long_poll_ends_when_its_time_is_over(web: WebServer, api: httpx.Client) -> None:
    """G4."""
    job_id = paused_job(web.store)
    answer = api.get(f"/v1/jobs/{job_id}/result", params={"wait": 0.3})
    assert (answer.status_code, answer.json()["status"]) == (202, "paused")
    assert answer.json()["outcome"] is None
    assert 0.2 < answer.elapsed.total_seconds() < 5


def test_a_hundred_long_polls_take_no_thread_each(web: WebServer, api: httpx.Client) -> None:
    job_id = web.job()
    client = httpx.Client(
        base_url=web.url,
        headers=api.headers,
        trust_env=False,
        timeout=30,
        limits=httpx.Limits(max_connections=100),
    )
    path = f"/v1/jobs/{job_id}/result"
    with client, ThreadPoolExecutor(100) as pool:
        asked = [pool.submit(client.get, path, params={"wait": 25}) for _ in range(100)]
        deadline = time.monotonic() + 20
        pause = threading.Event()
        while len(web.parts.tail.followers(web.parts.trace_key(job_id))) < 100:
            assert time.monotonic() < deadline, "the long polls do not wait"
            pause.wait(0.02)
        names = [thread.name for thread in threading.enumerate()]
        assert sum("AnyIO" in name for name in names) <= 40
        assert names.count("stepkeeper-tail") == 1
        ended_job(web.store, job_id, value=42)
        answers = [future.result(20) for future in asked]
    assert {answer.json()["outcome"]["value"] for answer in answers} == {42}


def test_a_failed_job_tells_why(web: WebServer, api: httpx.Client) -> None:
    job_id = ended_job(web.store, "job-2", reason="refused")
    answer = api.get(f"/v1/jobs/{job_id}/result")
    assert answer.status_code == 200
    assert answer.json()["outcome"] == {
        "ok": False,
        "value": None,
        "reason": "refused",
        "text": "it is refused",
    }


def test_jobs_are_listed_by_status(web: WebServer, api: httpx.Client) -> None:
    for number in range(3):
        paused_job(web.store, f"paused-{number}")
    web.job("queued")
    found = api.get("/v1/jobs", params={"status": "paused", "limit": 2}).json()["jobs"]
    assert [job["job_id"] for job in found] == ["paused-2", "paused-1"]
    oldest = api.get("/v1/jobs", params={"status": "paused", "oldest_first": True}).json()["jobs"]
    assert [job["job_id"] for job in oldest] == ["paused-0", "paused-1", "paused-2"]
    body = problem(api.get("/v1/jobs", params={"status": "dancing"}), 422, "invalid")
    assert body["errors"][0]["field"] == "query.status"


def test_cancelling_is_told_and_done_once(web: WebServer, api: httpx.Client) -> None:
    """G5."""
    job_id = paused_job(web.store)
    done = api.post(f"/v1/jobs/{job_id}/cancel", json={"note": "sent twice"})
    assert done.json() == {"job_id": job_id, "status": "cancelled", "pending": False}
    assert api.post(f"/v1/jobs/{job_id}/cancel").json() == done.json()
    outcome = api.get(f"/v1/jobs/{job_id}").json()["outcome"]
    assert outcome["text"] == "cancelled by root: sent twice"
    late = api.post(f"/v1/jobs/{job_id}/signals", json={"kind": "answer", "value": "yes"})
    problem(late, 409, "not-paused")


def test_a_job_that_has_ended_is_purged(web: WebServer, api: httpx.Client) -> None:
    job_id = ended_job(web.store, "job-3", value="done")
    problem(api.delete(f"/v1/jobs/{job_id}"), 409, "conflict")
    assert api.delete(f"/v1/jobs/{job_id}", params={"force": True}).status_code == 204
    problem(api.get(f"/v1/jobs/{job_id}"), 404, "job-not-found")


def test_results_of_any_form_are_plain_json(web: WebServer, api: httpx.Client) -> None:
    """G6."""
    value = {"at": "2026-03-01T09:00:00Z", "sum": "12.50", "1": [True, None, 2.5, "ä 可以"]}
    job_id = ended_job(web.store, "job-4", value=value)
    text = api.get(f"/v1/jobs/{job_id}/result").text
    assert json.loads(text)["outcome"]["value"] == value


def test_agents_and_workers_are_listed(web: WebServer, api: httpx.Client) -> None:
    web.job("running")
    claim = {"nonce": "n", "lease_ms": 60_000, "max_tries": 5}
    web.store.claim("running", owner="w1@host/b/1/", **claim)  # type: ignore[arg-type]
    paused_job(web.store)
    assert [agent["name"] for agent in api.get("/v1/agents").json()["agents"]] == ["shop"]
    found = api.get("/v1/workers").json()
    assert [worker["name"] for worker in found["workers"]] == ["w1@host"]
    assert [job["job_id"] for job in found["workers"][0]["jobs"]] == ["running"]
    assert (found["counts"]["running"], found["counts"]["paused"]) == (1, 1)


def test_a_poison_job_is_released_once(web: WebServer, api: httpx.Client) -> None:
    web.job("poison")
    for number in range(4):
        claim = {"nonce": f"n{number}", "lease_ms": 1, "max_tries": 2}
        web.store.claim("poison", owner=f"w{number}@host/b/1/", **claim)  # type: ignore[arg-type]
        web.store.abandon(f"w{number}@host/")
    listed = api.get("/v1/quarantine").json()["jobs"]
    assert [job["job_id"] for job in listed] == ["poison"]
    done = api.post("/v1/quarantine/poison/release")
    assert done.status_code == 201, done.text
    assert done.json()["released_from"] == "poison"
    assert api.get(done.headers["location"]).json()["status"] == "queued"
    assert api.get("/v1/quarantine").json()["jobs"] == []
    web.job("fine")
    problem(api.post("/v1/quarantine/fine/release"), 409, "conflict")
