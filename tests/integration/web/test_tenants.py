"""Shares and limits of tenants over HTTP."""

from __future__ import annotations

import httpx

from api_client.tenants import TenantPolicy
from tests.support.web import WebServer

JOB = {"agent": "shop", "input": "x", "tenant": "acme"}


def test_a_policy_is_set_listed_and_forgotten(web: WebServer, api: httpx.Client) -> None:
    done = api.put("/v1/tenants/acme", json={"weight": 3, "concurrency": 10, "backlog": 2})
    policy = {"weight": 3.0, "concurrency": 10, "backlog": 2}
    assert done.json() == {"name": "acme", "policy": policy}
    assert api.put("/v1/tenants/*", json={}).status_code == 200
    assert api.post("/v1/jobs", json=JOB).status_code == 201
    listed = api.get("/v1/tenants").json()
    [found] = listed["tenants"]
    assert (found["name"], found["policy"], found["ready"]) == ("acme", policy, 1)
    assert set(listed["policies"]) == {"*"}
    assert api.put("/v1/tenants/acme", json={"weight": 2}).json()["policy"]["backlog"] is None
    assert api.delete("/v1/tenants/acme").status_code == 204
    assert web.store.policies() == {"*": TenantPolicy()}


def test_a_backlog_over_its_cap_is_429_with_retry_after(api: httpx.Client) -> None:
    api.put("/v1/tenants/acme", json={"backlog": 1})
    assert api.post("/v1/jobs", json={**JOB, "priority": "high"}).status_code == 201
    refused = api.post("/v1/jobs", json=JOB)
    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    assert int(refused.headers["retry-after"]) > 0
    problem = refused.json()
    assert problem["type"] == "/problems/backlog-full"
    assert "tenant 'acme': 1 jobs wait already, and at most 1 may" in problem["detail"]
    assert api.post("/v1/jobs", json={**JOB, "tenant": "bolt"}).status_code == 201


def test_an_agent_or_a_queue_over_its_cap_is_429_with_retry_after(
    web: WebServer, api: httpx.Client
) -> None:
    done = api.put("/v1/backlogs/agent/shop", json={"cap": 1})
    assert done.json() == {"kind": "agent", "name": "shop", "cap": 1}
    assert api.post("/v1/jobs", json=JOB).status_code == 201
    refused = api.post("/v1/jobs", json=JOB)
    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    assert int(refused.headers["retry-after"]) > 0
    problem = refused.json()
    assert problem["type"] == "/problems/backlog-full"
    assert "agent 'shop': 1 jobs wait already, and at most 1 may" in problem["detail"]
    [shop] = [one for one in api.get("/v1/backlogs").json()["backlogs"] if one["cap"]]
    assert shop == {"kind": "agent", "name": "shop", "present": 1, "cap": 1, "set_by": "command"}
    assert api.delete("/v1/backlogs/agent/shop").status_code == 204
    assert api.post("/v1/jobs", json=JOB).status_code == 201


def test_a_cap_that_makes_no_sense_or_is_a_tenants_wish_is_refused(
    web: WebServer, api: httpx.Client
) -> None:
    for path, body in (
        ("agent/shop", {"cap": -1}),
        ("agent/shop", {}),
        ("agent/a b", {"cap": 1}),
        ("team/shop", {"cap": 1}),
    ):
        assert api.put(f"/v1/backlogs/{path}", json=body).status_code == 422, (path, body)
    own = web.client(web.key("operate", tenant="acme"))
    assert own.get("/v1/backlogs").json() == {"backlogs": []}
    assert own.put("/v1/backlogs/queue/celery", json={"cap": 1}).status_code == 403
    assert own.delete("/v1/backlogs/agent/shop").status_code == 403
    assert all(one.cap is None for one in web.store.backlogs())


def test_what_makes_no_sense_is_named(api: httpx.Client) -> None:
    for body in ({"weight": 0}, {"concurrency": 0}, {"backlog": "x"}, {"share": 1}):
        refused = api.put("/v1/tenants/acme", json=body)
        assert refused.status_code == 422, body
        assert next(iter(body)) in refused.text
    assert api.put(f"/v1/tenants/{'x' * 201}", json={}).status_code == 422
    assert api.post("/v1/jobs", json={**JOB, "priority": "urgent"}).status_code == 422


def test_a_key_of_a_tenant_sees_its_own_and_changes_nothing(
    web: WebServer, api: httpx.Client
) -> None:
    for name in ("acme", "bolt"):
        api.put(f"/v1/tenants/{name}", json={"weight": 2})
    own = web.client(web.key("operate", tenant="acme"))
    assert [each["name"] for each in own.get("/v1/tenants").json()["tenants"]] == ["acme"]
    assert own.put("/v1/tenants/acme", json={"weight": 9}).status_code == 403
    assert own.delete("/v1/tenants/bolt").status_code == 403
    assert web.store.policies()["acme"].weight == 2
