"""What stands in a server's folder beside its data: a lock, and a notice of who runs there."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker.embedded.errors import EmbeddedServerError, FolderInUse
from worker.embedded.ports import HOST

# Seconds between two looks at a lock or a server that is about to change.
POLL = 0.02
_LOCK_FILE = "stepkeeper.lock"
_NOTICE_FILE = "stepkeeper-server.json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server of ours listens: its port on loopback and its process id."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        """The Redis URL of database 0."""
        return f"redis://{HOST}:{self.port}/0"


def find_server(data_dir: str | os.PathLike[str]) -> Endpoint | None:
    """The server of ours that runs in ``data_dir`` and answers, or None."""
    notice = read_notice(Path(data_dir).absolute())
    if notice is None or answering_pid(notice.port) != notice.pid:
        return None
    return notice


def lock_folder(folder: Path, timeout: float) -> IO[bytes]:
    """The open lock file of ``folder``, which holds the lock until every copy of it is closed.

    Raises:
        FolderInUse: another process held the lock for ``timeout`` seconds.
        EmbeddedServerError: the folder cannot be made or written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / _LOCK_FILE).open("ab")
    except OSError as error:
        raise EmbeddedServerError(f"cannot keep data in {folder}: {error.strerror}") from error
    deadline = time.monotonic() + timeout
    while not _try_lock(lock):
        if time.monotonic() >= deadline:
            lock.close()
            raise FolderInUse(_in_use(folder))
        time.sleep(POLL)
    return lock


def _try_lock(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _in_use(folder: Path) -> str:
    found = read_notice(folder)
    if found is None:
        owner = "a process"
    elif answering_pid(found.port) == found.pid:
        owner = f"a server with process id {found.pid} on port {found.port}"
    else:
        owner = f"whoever started a server on port {found.port} there, which does not answer"
    return f"{folder} is in use by {owner}: stop it, or choose another folder"


def write_notice(folder: Path, endpoint: Endpoint) -> None:
    """Tell other processes where the server is; whole or not at all."""
    draft = folder / f"{_NOTICE_FILE}.new"
    draft.write_text(json.dumps({"port": endpoint.port, "pid": endpoint.pid}))
    draft.replace(folder / _NOTICE_FILE)


def remove_notice(folder: Path) -> None:
    """Nobody is to be found here any more; only who holds the lock may say so."""
    (folder / _NOTICE_FILE).unlink(missing_ok=True)


def read_notice(folder: Path) -> Endpoint | None:
    """What the last server here told of itself, which may have died since; None if unreadable."""
    try:
        notice = json.loads((folder / _NOTICE_FILE).read_text())
        return Endpoint(int(notice["port"]), int(notice["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def answering_pid(port: int) -> int | None:
    """The process id of the server that answers on ``port``; None while none does."""
    client = redis.Redis(
        HOST, port, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0)
    )
    with client:
        try:
            client.ping()
            return int(client.info("server")["process_id"])
        except (redis.RedisError, OSError, KeyError, ValueError):
            # Not there yet, still loading, or somebody else's: the caller knows how long to wait.
            return None
