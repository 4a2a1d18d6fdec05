"""A RabbitMQ of our own on loopback, with its own port mapper, node name, cookie and folders."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kombu import Connection

from tests.support.workers import eventually
from worker.embedded.ports import free_ports

_PLACES = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "/opt/homebrew/sbin/rabbitmq-server")
START_TIMEOUT_S = 60


def server_program() -> str | None:
    """The server's script, or ``None`` if it is not installed.

    Debian's own ``/usr/sbin/rabbitmq-server`` changes the user; the script behind it does not.
    """
    found = [place for place in _PLACES if Path(place).exists()]
    return found[0] if found else shutil.which("rabbitmq-server")


class RabbitServer:
    """One broker; may be killed and started again with the same data.

    Args:
        folder: where everything of it lies.
        rooms: virtual hosts beside ``/``.
        lines: further ones of its configuration.
    """

    def __init__(
        self, folder: Path, rooms: tuple[str, ...] = (), lines: tuple[str, ...] = ()
    ) -> None:
        self._folder = folder
        self._rooms = rooms
        self._lines = lines
        self.port, self._dist, self._mapper_port = free_ports(3)
        self._name = f"stepkeeper-{secrets.token_hex(4)}@localhost"
        self._cookie = secrets.token_hex(16)
        self._server: subprocess.Popen[bytes] | None = None
        self._mapper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        # Started here, so that it ends with us: a broker starts one that outlives it.
        self._mapper = self._spawn("epmd", "-port", str(self._mapper_port), "-address", "127.0.0.1")
        try:
            return self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait()

    @property
    def url(self) -> str:
        """The broker's URL."""
        return self.room("/")

    def room(self, name: str) -> str:
        """The URL of one virtual host."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/{name}"

    @property
    def version(self) -> str:
        """The server's version, as it says itself."""
        with Connection(self.url) as connection:
            connection.connect()
            properties: Any = connection.connection
            return str(properties.server_properties["version"])

    def start(self) -> Self:
        """Start and wait until it takes connections."""
        program = server_program()
        assert program is not None, "rabbitmq-server is not installed"
        self._server = self._spawn(program)
        eventually(self._answers, "RabbitMQ takes connections", START_TIMEOUT_S)
        return self

    def kill(self) -> None:
        """SIGKILL, to everything that it started."""
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
            self._server = None

    def _answers(self) -> bool:
        assert self._server is not None
        assert self._server.poll() is None, (self._folder / "output").read_text()
        connection = Connection(self.url, connect_timeout=2)
        away: tuple[type[BaseException], ...] = (OSError, *connection.connection_errors)
        try:
            connection.connect()
        except away:
            return False
        finally:
            connection.release()
        return True

    def _spawn(self, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / "output").open("ab") as output:
            return subprocess.Popen(
                command,
                env={**os.environ, **self._environment()},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _definitions(self) -> dict[str, Any]:
        """Its virtual hosts, and the one user, who may everything in each of them."""
        salt = secrets.token_bytes(4)
        digest = base64.b64encode(salt + hashlib.sha256(salt + b"guest").digest()).decode()
        all_rights = {"configure": ".*", "write": ".*", "read": ".*"}
        rooms = ("/", *self._rooms)
        return {
            "vhosts": [{"name": room} for room in rooms],
            "users": [{"name": "guest", "password_hash": digest, "tags": "administrator"}],
            "permissions": [{"user": "guest", "vhost": room, **all_rights} for room in rooms],
        }

    def _environment(self) -> dict[str, str]:
        folder = self._folder
        config = folder / "rabbitmq.conf"
        definitions = folder / "definitions.json"
        definitions.write_text(json.dumps(self._definitions()))
        lines = (
            f"listeners.tcp.default = 127.0.0.1:{self.port}",
            f"load_definitions = {definitions}",
            *self._lines,
        )
        config.write_text("".join(f"{line}\n" for line in lines))
        plugins = folder / "enabled_plugins"
        plugins.write_text("[].\n")
        cookie = f"-setcookie {self._cookie}"
        return {
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_NODENAME": self._name,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist),
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                f"{cookie} -kernel inet_dist_use_interface {{127,0,0,1}}"
            ),
        }
