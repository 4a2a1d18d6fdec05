"""The HTTP API, out of its OpenAPI document."""

from __future__ import annotations

from typing import Any

from tests.support.reference.markup import code, page, table
from worker.web.app import make_service
from worker.web.parts import Parts
from worker.web.settings import WebSettings

LEAD = (
    "The document itself is at `/v1/openapi.json` of every server. How keys, errors, repeated "
    "requests and waiting work is told in [HTTP API](../http-api.md)."
)
METHODS = ("get", "post", "put", "patch", "delete")


def http() -> str:
    """The page; the server that it asks needs no store for that."""
    parts = Parts.open("redis://127.0.0.1:1/0", WebSettings())
    try:
        document = make_service(parts).openapi()
    finally:
        parts.close()
    return page("HTTP API, route by route", LEAD, _routes(document))


def _routes(document: dict[str, Any]) -> list[str]:
    return [
        _route(method, path, operations[method])
        for path, operations in document["paths"].items()
        for method in METHODS
        if method in operations
    ]


def _route(method: str, path: str, told: dict[str, Any]) -> str:
    parts = [f"## {method.upper()} {path}", _text(told)]
    if told.get("parameters"):
        heads = ("parameter", "in", "needed", "what it is")
        parts.append(table(heads, [_parameter(each) for each in told["parameters"]]))
    if "requestBody" in told:
        parts.append(f"Body: {_body(told['requestBody'])}.")
    rows = [(code(status), answer["description"]) for status, answer in told["responses"].items()]
    parts.append(table(("status", "when"), rows))
    return "\n\n".join(parts)


def _text(told: dict[str, Any]) -> str:
    return str(told.get("description") or told.get("summary") or "")


def _parameter(each: dict[str, Any]) -> tuple[str, str, str, str]:
    needed = "required" if each.get("required") else ""
    text = each.get("description") or each["schema"].get("description") or ""
    return code(each["name"]), each["in"], needed, text


def _body(body: dict[str, Any]) -> str:
    (kind, content), *_ = body["content"].items()
    name = content["schema"].get("$ref", "").rpartition("/")[2]
    return f"{code(name)}, {code(kind)}" if name else code(kind)
