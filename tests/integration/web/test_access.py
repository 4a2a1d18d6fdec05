"""Who may do what over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.paused import paused_job
from tests.support.web import TASK, WebServer, problem
from worker.web.keys import API_KEYS

YES = {"kind": "answer", "value": "yes"}


def test_a_key_is_needed(web: WebServer) -> None:
    refused = web.client().get("/v1/agents")
    problem(refused, 401, "no-key")
    assert refused.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("form", ["{key}x", "sk_000000000000_{secret}", "{id}", "sk_", "ä", ""])
def test_a_wrong_key_is_refused(web: WebServer, form: str) -> None:
    key = web.key()
    _, key_id, secret = key.split("_", 2)
    sent = f"Bearer {form.format(key=key, id=key_id, secret=secret)}".encode("latin-1")
    headers = [(b"Authorization", sent.strip())]
    problem(web.client().get("/v1/agents", headers=headers), 401, "no-key")


def test_a_key_is_nowhere_stored(web: WebServer) -> None:
    key = web.key("review", labels=["support"])
    secret = key.split("_", 2)[2]
    everything = web.parts.redis.hgetall(API_KEYS)
    assert len(everything) == 1
    assert secret.encode() not in b"".join(everything.values())
    assert secret not in repr(web.parts.ring.list())


def test_a_revoked_key_is_refused_at_once(web: WebServer) -> None:
    key = web.key()
    client = web.client(key)
    assert client.get("/v1/agents").status_code == 200
    web.parts.ring.revoke(key.split("_")[1])
    problem(client.get("/v1/agents"), 401, "no-key")


def test_a_key_that_is_over_is_refused(web: WebServer) -> None:
    client = web.client(web.key(days=-1))
    problem(client.get("/v1/agents"), 401, "no-key")


ROLES: list[tuple[str, str, str, Any, set[str]]] = [
    ("submit", "POST", "/v1/jobs", TASK, {"submit"}),
    ("list", "GET", "/v1/jobs?status=queued", None, {"review", "operate"}),
    ("read", "GET", "/v1/jobs/job-1", None, {"submit", "review", "operate"}),
    ("inbox", "GET", "/v1/inbox", None, {"review", "operate"}),
    ("decide", "POST", "/v1/jobs/job-1/signals", YES, {"review"}),
    ("tell", "POST", "/v1/jobs/job-1/messages", {"text": "hurry"}, {"review"}),
    ("many", "POST", "/v1/signals", {"filter": {}, "signal": YES}, {"review"}),
    ("pause", "POST", "/v1/jobs/job-1/pause", None, {"review", "operate"}),
    ("cancel", "POST", "/v1/jobs/job-1/cancel", {}, {"submit", "operate"}),
    ("purge", "DELETE", "/v1/jobs/job-1", None, {"operate"}),
    ("workers", "GET", "/v1/workers", None, {"operate"}),
    ("quarantine", "GET", "/v1/quarantine", None, {"operate"}),
    ("tenants", "GET", "/v1/tenants", None, {"operate"}),
    ("share", "PUT", "/v1/tenants/acme", {"weight": 2}, {"operate"}),
    ("backlogs", "GET", "/v1/backlogs", None, {"operate"}),
    ("cap", "PUT", "/v1/backlogs/agent/shop", {"cap": 5}, {"operate"}),
    ("release", "POST", "/v1/quarantine/job-1/release", None, {"operate"}),
]


@pytest.mark.parametrize("case", ROLES, ids=[case[0] for case in ROLES])
def test_each_role_may_do_its_own_only(
    web: WebServer, case: tuple[str, str, str, Any, set[str]]
) -> None:
    _, method, path, body, allowed = case
    paused_job(web.store)
    for role in ("submit", "review", "operate"):
        done = web.client(web.key(role)).request(method, path, json=body)
        if role in allowed:
            assert done.status_code in (200, 201, 202, 409), done.text
        else:
            problem(done, 403, "not-allowed")


def test_a_review_key_cannot_submit(web: WebServer) -> None:
    refused = web.client(web.key("review", name="rita")).post("/v1/jobs", json=TASK)
    assert problem(refused, 403, "not-allowed")["detail"] == "key 'rita' has no role submit"
    assert web.parts.redis.exists("celery") == 0


JOB_PATHS: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("GET", "/result", None),
    ("GET", "/messages", None),
    ("GET", "/events", None),
    ("POST", "/signals", YES),
    ("POST", "/cancel", None),
    ("POST", "/messages", {"text": "hurry"}),
    ("POST", "/pause", None),
    ("DELETE", "", None),
]


def test_a_job_of_another_label_is_invisible(web: WebServer) -> None:
    paused_job(web.store, "theirs", labels=("finance",))
    paused_job(web.store, "ours", labels=("support", "night"))
    paused_job(web.store, "anybodys")
    client = web.client(web.key(labels=["support"]))
    for method, path, body in JOB_PATHS:
        refused = client.request(method, f"/v1/jobs/theirs{path}", json=body)
        unknown = client.request(method, f"/v1/jobs/nobody{path}", json=body)
        detail = problem(refused, 404, "job-not-found")["detail"]
        assert detail == unknown.json()["detail"].replace("nobody", "theirs")
    assert client.post("/v1/quarantine/theirs/release").status_code == 404
    for path in ("/v1/inbox", "/v1/jobs?status=paused"):
        ids = {job["job_id"] for job in client.get(path).json()["jobs"]}
        assert ids == {"ours", "anybodys"}
    assert web.store.read("theirs").pause is not None


def test_a_job_of_another_tenant_is_invisible(web: WebServer) -> None:
    web.job("theirs", tenant="south")
    web.job("nobodys")
    client = web.client(web.key(tenant="north"))
    mine = client.post("/v1/jobs", json=TASK).json()["job_id"]
    assert web.store.read(mine).spec.tenant == "north"
    for job_id in ("theirs", "nobodys"):
        problem(client.get(f"/v1/jobs/{job_id}"), 404, "job-not-found")
    found = client.get("/v1/jobs?status=queued").json()["jobs"]
    assert [job["job_id"] for job in found] == [mine]
    foreign = client.post("/v1/jobs", json={**TASK, "tenant": "south"})
    assert problem(foreign, 422, "invalid")["errors"][0]["field"] == "body.tenant"


def test_a_labelled_key_submits_for_its_labels(web: WebServer) -> None:
    client = web.client(web.key("submit", labels=["support", "night"]))
    job_id = client.post("/v1/jobs", json=TASK).json()["job_id"]
    assert web.store.read(job_id).spec.labels == ("night", "support")
    job_id = client.post("/v1/jobs", json={**TASK, "labels": ["night"]}).json()["job_id"]
    assert web.store.read(job_id).spec.labels == ("night",)
    foreign = client.post("/v1/jobs", json={**TASK, "labels": ["finance"]})
    assert problem(foreign, 422, "invalid")["errors"][0]["field"] == "body.labels"


def test_too_many_requests_are_told_when_to_come_again(redis_url: str) -> None:
    with WebServer(redis_url, rate_burst=5, rate_per_s=0.5) as web:
        client = web.client(web.key())
        done = [client.get("/v1/agents") for _ in range(8)]
        codes = [response.status_code for response in done]
        assert codes == [200] * 5 + [429] * 3
        problem(done[-1], 429, "too-many")
        assert 1 <= int(done[-1].headers["retry-after"]) <= 2
        assert web.client(web.key(name="other")).get("/v1/agents").status_code == 200


def test_guessing_keys_is_slowed_down(redis_url: str) -> None:
    with WebServer(redis_url, rate_burst=3, rate_per_s=0.01) as web:
        codes = [web.client("guess").get("/v1/agents").status_code for _ in range(5)]
        assert codes == [401] * 3 + [429] * 2


def test_a_body_that_is_too_large_is_refused(redis_url: str) -> None:
    with WebServer(redis_url, max_body_bytes=2048) as web:
        client = web.client(web.key())
        body = b'{"agent":"shop","input":"' + b"x" * 3000 + b'"}'
        headers = {"Content-Type": "application/json"}
        problem(client.post("/v1/jobs", content=body, headers=headers), 413, "too-large")
        in_pieces = (body[i : i + 500] for i in range(0, len(body), 500))
        problem(client.post("/v1/jobs", content=in_pieces, headers=headers), 413, "too-large")


def test_a_head_that_is_too_large_is_refused(web: WebServer, api: httpx.Client) -> None:
    limit = web.parts.settings.max_header_bytes
    problem(api.get("/v1/agents", headers={"X-More": "x" * limit}), 431, "head-too-large")
    problem(api.get("/v1/agents", params={"more": "x" * limit}), 431, "head-too-large")


@pytest.mark.parametrize("path", ["/v1/agents", "/v1/jobs/nobody", "/v1/health", "/nowhere"])
def test_every_answer_carries_the_headers_of_safety(api: httpx.Client, path: str) -> None:
    headers = api.get(path, headers={"Origin": "https://evil.example"}).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert not any(name.startswith("access-control") for name in headers)


def test_a_preflight_of_another_site_gets_no_permission(api: httpx.Client) -> None:
    asked = api.options(
        "/v1/jobs",
        headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"},
    )
    assert asked.status_code == 405
    assert "access-control-allow-origin" not in asked.headers


def test_a_store_that_is_away_is_503(redis_url: str) -> None:
    with WebServer("redis://127.0.0.1:1/0") as web:
        refused = web.client("sk_000000000000_" + 43 * "x").get("/v1/agents")
        body = problem(refused, 503, "unavailable")
        assert int(refused.headers["retry-after"]) >= 1
        assert "cannot reach Redis" in body["detail"]
        problem(web.client().get("/v1/health"), 503, "unavailable")


# --- without a key, on this machine ---------------------------------------------------------


@pytest.fixture
def keyless(redis_url: str) -> Any:
    """A server for development."""
    with WebServer(redis_url, keyless_loopback=True) as web:
        yield web


def test_this_machine_needs_no_key_if_it_was_said_so(keyless: WebServer) -> None:
    paused_job(keyless.store)
    done = keyless.client().post("/v1/jobs/job-1/signals", json={**YES, "by": "anna"})
    assert (done.status_code, done.json()["by"]) == (200, "anna")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"X-Forwarded-For": "10.0.0.1"},
        {"Forwarded": "for=10.0.0.1"},
    ],
)
def test_what_comes_from_elsewhere_needs_one_all_the_same(
    keyless: WebServer, headers: dict[str, str]
) -> None:
    problem(keyless.client().get("/v1/agents", headers=headers), 401, "no-key")


def test_a_wrong_key_is_not_made_good_by_this_machine(keyless: WebServer) -> None:
    problem(keyless.client("sk_wrong").get("/v1/agents"), 401, "no-key")
