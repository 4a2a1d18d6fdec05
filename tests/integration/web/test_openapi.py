"""The OpenAPI document: complete, and true."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from schemathesis import APIOperation, Case, GenerationMode, checks
from schemathesis.core.result import Ok

from api_client.contract import AgentInfo, PauseKind
from tests.support.paused import ended_job, paused_job
from tests.support.web import WebServer

OPERATIONS = 24
EXAMPLES_EACH = 8


@pytest.fixture
def document(api: httpx.Client) -> dict[str, Any]:
    """The document as it is served; needs no key."""
    found: dict[str, Any] = api.get("/v1/openapi.json", headers={"Authorization": ""}).json()
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every operation with its address."""
    return [
        (f"{method} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    found = operations(document)
    assert len(found) == OPERATIONS
    for name, operation in found:
        assert operation["description"], name
        good = [code for code in operation["responses"] if code < "300"]
        assert good, name
        for code in good:
            content = operation["responses"][code].get("content", {})
            assert code == "204" or all("example" in media for media in content.values()), name
        if "requestBody" in operation and not name.endswith(("/cancel", "/pause")):
            assert operation["requestBody"]["content"]["application/json"]["examples"], name
        if "health" not in name:
            assert {"400", "401", "403", "413", "422", "429", "431", "503"} <= set(
                operation["responses"]
            ), name
            assert operation["x-roles"], name


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that finds the shapes it refers to."""
    return {**schema, "components": document["components"]}


def test_every_example_fits_its_schema(document: dict[str, Any]) -> None:
    seen = 0
    for name, operation in operations(document):
        medias = [
            *operation.get("requestBody", {}).get("content", {}).values(),
            *(
                media
                for response in operation["responses"].values()
                for media in response.get("content", {}).values()
            ),
        ]
        for media in medias:
            examples = [item["value"] for item in media.get("examples", {}).values()]
            examples += [media["example"]] if "example" in media else []
            validator = Draft202012Validator(resolved(document, media["schema"]))
            for example in examples:
                problems = [error.message for error in validator.iter_errors(example)]
                assert not problems, (name, example, problems)
                seen += 1
    assert seen > 100


CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
JOBS = ("queued", "asks", "refund", "done", "failed", "nobody")


def fill(web: WebServer) -> None:
    """A job of every kind, so that paths lead somewhere."""
    web.store.announce([AgentInfo(name="shop", version="1", queue="celery")])
    web.job("queued")
    paused_job(web.store, "asks")
    paused_job(web.store, "refund", PauseKind.APPROVAL)
    ended_job(web.store, "done", value={"sum": 1})
    web.store.published("done")
    ended_job(web.store, "failed", reason="refused")


def aim(case: Case[Any], number: int) -> None:
    """Let most requests meet a job, and no stream be endless."""
    if "job_id" in (case.path_parameters or {}) and number % 4:
        case.path_parameters["job_id"] = JOBS[number % len(JOBS)]
    if case.operation.label == "POST /v1/jobs" and isinstance(case.body, dict) and number % 4:
        case.body["agent"] = "shop"
    if case.operation.path.endswith("/events"):
        case.query = {**(case.query or {}), "follow": "false"}


def run(operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode, call: Any) -> None:
    """Many requests of one mode."""

    @settings(
        max_examples=EXAMPLES_EACH,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(mode))
    def tried(case: Case[Any]) -> None:
        call(case)

    tried()


@pytest.mark.timeout(120)
def test_schemathesis_finds_no_hole(redis_url: str) -> None:
    codes: Counter[int] = Counter()
    with WebServer(redis_url, max_wait_s=0.05) as web, requests.Session() as session:
        fill(web)
        session.trust_env = False
        headers = {"Authorization": f"Bearer {web.key()}"}

        def call(case: Case[Any]) -> None:
            aim(case, codes.total())
            answer = case.call_and_validate(
                base_url=web.url, headers=headers, checks=CHECKS, session=session
            )
            codes[answer.status_code] += 1

        document = web.client().get("/v1/openapi.json").json()
        schema = schemathesis.openapi.from_dict(document)
        for result in schema.get_all_operations():
            assert isinstance(result, Ok)
            operation = result.ok()
            for mode in GenerationMode:
                if mode is GenerationMode.POSITIVE or can_be_wrong(operation):
                    run(operation, mode, call)
    assert codes.total() > OPERATIONS * EXAMPLES_EACH
    assert {200, 201, 202, 204, 400, 404, 409, 422} <= set(codes), codes


def can_be_wrong(operation: APIOperation[Any, Any, Any, Any]) -> bool:
    """Whether an operation takes anything that a request could get wrong."""
    return bool(list(operation.query) or list(operation.headers) or list(operation.body))
