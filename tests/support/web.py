"""The web server in a thread of the test, on a real port."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

import httpx
import uvicorn

from api_client.contract import JobSpec
from worker.store.redis import RedisCheckpointStore
from worker.web.app import create_app
from worker.web.parts import Parts
from worker.web.serving import listen, url_of
from worker.web.settings import WebSettings

START_S = 30
ALL_ROLES = ("submit", "review", "operate")
TASK = {"agent": "shop", "input": "The headphones are broken."}


def problem(response: httpx.Response, status: int, name: str) -> dict[str, Any]:
    """The body of a refusal of this kind."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["type"] == f"/problems/{name}"
    assert body["status"] == status
    assert body["title"]
    return body


class WebServer:
    """A server on a store, with clients that have keys.

    Args:
        url: of the store.
        settings: fields of ``WebSettings``.
    """

    def __init__(self, url: str, **settings: Any) -> None:
        self.parts = Parts.open(url, WebSettings(**{"rate_burst": 10_000, **settings}))
        self.store = RedisCheckpointStore.from_url(url)
        self._listening = listen("127.0.0.1", 0)
        self.url = url_of(self._listening)
        config = uvicorn.Config(
            create_app(self.parts), lifespan="on", log_config=None, timeout_graceful_shutdown=5
        )
        self._server = uvicorn.Server(config)
        self._clients: list[httpx.Client] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        startup = self._server.startup

        async def started(sockets: Any = None) -> None:
            await startup(sockets)
            self._ready.set()

        self._server.startup = started  # type: ignore[method-assign]
        self._server.run(sockets=[self._listening])

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(START_S), "the web server did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close_clients()
        self.parts.tail.close()
        self._server.should_exit = True
        self._thread.join(START_S)
        self._listening.close()

    def close_clients(self) -> None:
        """Close the clients that a test has used."""
        while self._clients:
            self._clients.pop().close()

    def key(self, *roles: str, name: str = "anna", **options: Any) -> str:
        """A new API key; of every role, if none is given."""
        return self.parts.ring.create(name, roles or ALL_ROLES, **options)[1]

    def client(self, key: str = "", **headers: str) -> httpx.Client:
        """A client that sends this key, closed with the server."""
        if key:
            headers = {"Authorization": f"Bearer {key}", **headers}
        client = httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30)
        self._clients.append(client)
        return client

    def job(self, job_id: str = "job-1", **fields: Any) -> str:
        """A job that no worker has taken."""
        spec = {"job_id": job_id, "agent": "shop", "input": "hello", **fields}
        self.store.create(JobSpec.model_validate(spec))
        return job_id
