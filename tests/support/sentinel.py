"""A primary, a replica and three sentinels on loopback."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from tests.support.workers import eventually
from worker.embedded import EmbeddedServer
from worker.embedded.ports import free_ports
from worker.embedded.server import server_binary

MASTER = "mymaster"
_CONFIG = """\
port {port}
bind 127.0.0.1
dir {folder}
sentinel monitor {master} 127.0.0.1 {primary} 2
sentinel down-after-milliseconds {master} 1000
sentinel failover-timeout {master} 6000
sentinel parallel-syncs {master} 1
"""


class SentinelTrio:
    """Starts all five; ``url`` is the store's.

    Args:
        folder: where their data lies.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        at_once = {"repl-diskless-sync-delay": "0"}
        self.primary = EmbeddedServer(folder / "primary", config=at_once)
        self.replica: EmbeddedServer | None = None
        self._ports = list(free_ports(3))
        self._sentinels: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self.primary.start()
            follow = {"replicaof": f"127.0.0.1 {self.primary.endpoint.port}"}
            self.replica = EmbeddedServer(self._folder / "replica", config=follow).start()
            self._sentinels = [self._start(port) for port in self._ports]
            eventually(self._agreed, "the sentinels know each other and the replica")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        for sentinel in self._sentinels:
            sentinel.kill()
            sentinel.wait()
        if self.replica is not None:
            self.replica.stop()
        self.primary.stop()

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        folder = self._folder / f"sentinel-{port}"
        folder.mkdir(parents=True)
        config = folder / "sentinel.conf"
        primary = self.primary.endpoint.port
        config.write_text(_CONFIG.format(port=port, folder=folder, master=MASTER, primary=primary))
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                [str(server_binary()), str(config), "--sentinel"],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _agreed(self) -> bool:
        return self._in_step() and all(self._knows_all(port) for port in self._ports)

    def _in_step(self) -> bool:
        """Whether the replica has all that the primary has."""
        assert self.replica is not None
        client: Any = redis.Redis.from_url(self.replica.url)
        with client:
            return bool(client.info("replication")["master_link_status"] == "up")

    def _knows_all(self, port: int) -> bool:
        state = self._ask(port)
        return bool(
            state
            and state["num-other-sentinels"] == 2
            and state["num-slaves"] == 1
            and state["flags"] == "master"
        )

    def _ask(self, port: int) -> dict[str, Any]:
        client: Any = redis.Redis(port=port, socket_timeout=1)
        try:
            with client:
                state: dict[str, Any] = client.sentinel_master(MASTER)
                return state
        except redis.RedisError:  # not up yet
            return {}

    @property
    def url(self) -> str:
        """Of the store, found through the sentinels."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        return f"sentinel://{hosts}/0?master={MASTER}"

    @property
    def primary_port(self) -> int:
        """The port of the primary, as the sentinels see it now; 0 while they do not answer."""
        return int(self._ask(self._ports[0]).get("port", 0))
