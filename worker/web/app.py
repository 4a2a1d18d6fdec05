"""One ASGI application out of the parts."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from api_client.answers import load_checker
from api_client.errors import StepkeeperError
from worker.web import api
from worker.web.console import errors, routes
from worker.web.console.visitors import LoginNeeded
from worker.web.documents import DESCRIPTION
from worker.web.guards import Guard
from worker.web.parts import Parts
from worker.web.problems import (
    Problem,
    ProblemBody,
    invalid_request,
    problem_of,
    problem_of_status,
)

log = logging.getLogger(__name__)

API_PREFIX = "/v1/"
REFERENCES = "#/components/schemas/{model}"


def create_app(parts: Parts) -> ASGIApp:
    """The whole application; closes the parts when it ends."""
    settings = parts.settings
    return Guard(
        make_service(parts),
        max_body=settings.max_body_bytes,
        max_head=settings.max_header_bytes,
        https=settings.https,
    )


def make_service(parts: Parts) -> FastAPI:
    """The routes, without what stands around them."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(load_checker)
        yield
        await run_in_threadpool(parts.close)

    app = FastAPI(
        title="Stepkeeper",
        version=version("stepkeeper"),
        description=DESCRIPTION,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.parts = parts
    app.include_router(api.router)
    for room in routes.ROUTERS:
        app.include_router(room)
    app.mount("/static", routes.files(), name="static")
    _handle_errors(app)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the shape of problems."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        shape = ProblemBody.model_json_schema(ref_template=REFERENCES)
        schemas = document["components"]["schemas"]
        for name, inner in shape.pop("$defs").items():
            schemas.setdefault(name, inner)
        schemas["Problem"] = shape
        app.openapi_schema = document
    return app.openapi_schema


def _handle_errors(app: FastAPI) -> None:
    def answer(request: Request, problem: Problem) -> Response:
        if request.url.path.startswith(API_PREFIX):
            return problem.response()
        return errors.page(request, problem)

    async def problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return answer(request, error)

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, StepkeeperError)
        return answer(request, problem_of(error))

    async def form(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return answer(request, invalid_request(error.errors()))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return answer(request, problem_of_status(error.status_code, error.detail, error.headers))

    async def bug(request: Request, _: Exception) -> Response:
        log.error("%s %s broke", request.method, request.url.path)
        return answer(
            request, problem_of_status(500, "something went wrong here; the log tells more")
        )

    async def login(request: Request, _: Exception) -> Response:
        return errors.login(request)

    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(StepkeeperError, ours)
    app.add_exception_handler(RequestValidationError, form)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(LoginNeeded, login)
    app.add_exception_handler(Exception, bug)
