"""Redis as ``deploy/redis`` starts it: its settings and its users, on a free port of loopback."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from tests.support.workers import ROOT, eventually
from worker.embedded.ports import free_ports
from worker.embedded.server import server_binary

DEPLOY = ROOT / "deploy"
START = DEPLOY / "redis" / "start.sh"
STOP_TIMEOUT_S = 30


def users() -> dict[str, list[str]]:
    """The rules of each user in the ACL file."""
    lines = (DEPLOY / "redis" / "users.acl").read_text().splitlines()
    return {words[1]: words[2:] for line in lines if (words := line.split())}


class ShippedRedis:
    """One server with the shipped users; each has a password of its own.

    Args:
        folder: for its data and settings; empty.
        options: further options of the server.
        program: the server's; the embedded one if not given.
        env: further environment variables of ``start.sh``.
        scheme: of the URLs.
        query: of the URLs.
        start: the script; another copy of it, for a test of faults.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        program: str = "",
        env: dict[str, str] | None = None,
        scheme: str = "redis",
        query: str = "",
        start: Path = START,
    ) -> None:
        self._folder = folder
        self._start = start
        self._options = options
        self._env = env or {}
        self._program = program or str(server_binary())
        self._process: subprocess.Popen[bytes] | None = None
        self._scheme, self._query = scheme, query
        self.port = next(iter(free_ports(1)))
        self.passwords = {name: secrets.token_hex(16) for name in users() if name != "default"}

    def __enter__(self) -> Self:
        for name in ("data", "run"):
            (self._folder / name).mkdir(parents=True)
        given = {f"REDIS_{name.upper()}_PASSWORD": word for name, word in self.passwords.items()}
        places = {"REDIS_RUN_DIR": str(self._folder / "run"), "REDIS_SERVER": self._program}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["sh", str(self._start), *self._arguments()],
                env={"PATH": os.environ["PATH"], **places, **given, **self._env},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            eventually(self._answers, "the server takes connections")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            finally:
                self._process.kill()

    @property
    def log(self) -> Path:
        """What the server printed."""
        return self._folder / "log"

    def _arguments(self) -> list[str]:
        port = "--tls-port" if self._scheme == "rediss" else "--port"
        return [port, str(self.port), "--dir", str(self._folder / "data"), *self._options]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        try:
            with self.client("monitor") as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def url(self, user: str) -> str:
        """The store's URL for one of the users."""
        login = f"{user}:{self.passwords[user]}"
        return f"{self._scheme}://{login}@127.0.0.1:{self.port}/0{self._query}"

    def client(self, user: str) -> Any:
        """A plain Redis client as one of the users; closed by who takes it."""
        return redis.Redis.from_url(self.url(user), decode_responses=True)
