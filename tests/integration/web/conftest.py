"""A web server on an empty store, where workers have announced the agent ``shop``."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from api_client.contract import AgentInfo
from tests.support.web import WebServer
from worker.embedded import EmbeddedServer


@pytest.fixture(scope="session")
def web_server(valkey: EmbeddedServer) -> Iterator[WebServer]:
    """The server of this run."""
    with WebServer(valkey.url) as server:
        yield server


@pytest.fixture
def web(web_server: WebServer, redis_url: str) -> Iterator[WebServer]:
    """The server, on an empty store."""
    web_server.store.announce([AgentInfo(name="shop", version="1", queue="celery")])
    yield web_server
    web_server.close_clients()


@pytest.fixture
def api(web: WebServer) -> httpx.Client:
    """A client that may do everything."""
    return web.client(web.key(name="root"))
