"""Every route there is, asked as a stranger would: headers, hosts, and where one is led."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.web import WebServer

EVIL = "evil.example"
LED = ("/", "/inbox", "/login?next=//evil.example/", "/jobs/", "//evil.example/")
CONSOLE = (
    "/",
    "/login",
    "/inbox",
    "/jobs",
    "/workers",
    "/flow",
    "/jobs/x",
    "/static/desk.js",
    "/%00",
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def every_route(api: httpx.Client) -> list[tuple[str, str]]:
    """Methods and addresses: those of the document, and those of the console."""
    paths: dict[str, Any] = api.get("/v1/openapi.json").json()["paths"]
    found = [
        (method.upper(), path.replace("{", "").replace("}", ""))
        for path, methods in paths.items()
        for method in methods
        if not path.endswith("/events") or method != "get"
    ]
    return found + [
        (method, path) for path in (*CONSOLE, "/..") for method in ("GET", "POST", "DELETE")
    ]


def test_every_route_has_the_headers_of_safety_and_no_error_of_the_server(
    web: WebServer, api: httpx.Client
) -> None:
    routes = every_route(api)
    assert len(routes) > 40
    for client in (api, web.client()):
        for method, path in routes:
            answer = client.request(method, path, content=b"{}")
            where = f"{method} {path}"
            assert answer.status_code < 500, where
            assert HEADERS.items() <= dict(answer.headers).items(), where
            assert "default-src 'none'" in answer.headers["content-security-policy"], where


@pytest.mark.parametrize(
    "path", ["/", "/inbox", "/login?next=//evil.example/", "/jobs/", "//evil.example/"]
)
def test_nobody_is_led_to_another_host(web: WebServer, path: str) -> None:
    headers = {"Host": EVIL, "X-Forwarded-Host": EVIL, "X-Forwarded-For": "127.0.0.1"}
    answer = web.client().get(path, headers=headers, follow_redirects=False)
    place = answer.headers.get("location", "")
    assert answer.status_code < 500
    assert not httpx.URL(place).host, place
    assert EVIL not in answer.text.replace("//evil.example", "", 1) or path.startswith("/login")


def test_an_error_shows_nothing_of_the_inside(api: httpx.Client) -> None:
    answer = api.post("/v1/jobs", content=b'{"agent": "\\u0000", "input": 1e400, "nonsense": {}}')
    assert answer.status_code in (400, 422)
    for word in ("Traceback", "site-packages", "redis://", ".py"):
        assert word not in answer.text
