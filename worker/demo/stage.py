"""Everything that the demo runs on: a Redis, a model's server, workers, and a scratch folder."""

from __future__ import annotations

import os
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from api_client import AgentClient
from api_client.redis_store import RedisJobStore
from worker.demo.failure import DemoFailed
from worker.demo.held import HeldModel
from worker.demo.worker_process import WorkerProcess
from worker.devserver import ModelServer
from worker.embedded import EmbeddedServer
from worker.examples.book import Book
from worker.examples.folder import shipped_pages
from worker.examples.scripts import CALCULATOR_SCRIPT, CALCULATOR_TASK, ExampleModel
from worker.guarded import environment_without
from worker.undisturbed import scratch_folder

NODE = "demo@localhost"
LIBRARY_KEY = "the-key-of-the-demo-library"
_FOREIGN = ("STEPKEEPER_", "CELERY_")


class Stage:
    """Starts what is needed, and takes all of it away again, whatever happens in between.

    Args:
        real: ask the model that the environment names, not a script.
    """

    def __init__(self, *, real: bool) -> None:
        self.real = real
        self.worker: WorkerProcess | None = None
        self.model = HeldModel(ExampleModel(), (CALCULATOR_TASK, len(CALCULATOR_SCRIPT)))
        self._workers = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _set_up(self) -> None:
        if self.real and not os.environ.get("LLM_API_KEY"):
            raise DemoFailed("--real needs LLM_API_KEY and LLM_MODEL, and LLM_BASE_URL if need be")
        self.folder = self._stack.enter_context(scratch_folder("stepkeeper-demo-"))
        redis = self._stack.enter_context(EmbeddedServer(self.folder / "redis"))
        self.url = redis.url
        self.store = RedisJobStore.from_url(self.url)
        self.client = AgentClient(self.url, store=self.store)
        self.papers = Book(f"sqlite:///{self.folder / 'papers.sqlite3'}")
        self._env = self._environment()
        self._stack.callback(self._stop_worker)

    def _environment(self) -> dict[str, str]:
        """The worker's: of ours, all that is not about another installation."""
        return {
            **environment_without(*_FOREIGN),
            "STEPKEEPER_REDIS_URL": self.url,
            "STEPKEEPER_AGENTS": "worker.examples",
            "STEPKEEPER_SWEEP_S": "0.2",
            "STEPKEEPER_DOCS_DIR": str(shipped_pages()),
            "STEPKEEPER_PAPERS_DB": f"sqlite:///{self.papers.path}",
            "STEPKEEPER_PAPERS_KEY": LIBRARY_KEY,
            "STEPKEEPER_SHOP_DB": f"sqlite:///{self.folder / 'shop.sqlite3'}",
            **({} if self.real else self._scripted()),
        }

    def _scripted(self) -> dict[str, str]:
        """Start the server that speaks for a model, and say where it is."""
        server = self._stack.enter_context(ModelServer(self.model, keep_requests=False))
        self._stack.callback(self.model.open)  # before the server can stop, nothing may hang in it
        return {
            "LLM_BASE_URL": server.base_url,
            "LLM_API_KEY": "none-is-needed",
            "LLM_MODEL": "scripted",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def start_worker(self) -> WorkerProcess:
        """A new worker; always under the same name, so that it takes over from the one before."""
        self._workers += 1
        log = self.folder / f"worker-{self._workers}.log"
        self.worker = WorkerProcess([f"--name={NODE}"], self._env, log, self.folder)
        return self.worker

    def _stop_worker(self) -> None:
        if self.worker is not None:
            self.worker.stop()

    def key_in_redis(self) -> bool:
        """Whether the hidden key of the library stands anywhere in what Redis wrote to its disk."""
        files = (path for path in (self.folder / "redis").rglob("*") if path.is_file())
        return any(LIBRARY_KEY.encode() in path.read_bytes() for path in files)
