"""A process that has imported everything, and forks a Celery worker when it is asked.

A worker that is forked is as real as one that is started, only quicker: it needs no second to
import Celery. It leads its own session and process group, and may be killed in any way.

Requests and answers are JSON datagrams on a socket; a request carries the file descriptor that
becomes the worker's output.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from typing import Any, NoReturn

from tests.support.workers import (
    OWN_PREFIXES,
    ROOT,
    STOP_TIMEOUT_S,
    RunningWorker,
    arguments,
    settings,
)

_IMPORTED = (
    "celery.bin.worker",
    "celery.apps.worker",
    "celery.backends.redis",
    "celery.concurrency.prefork",
    "celery.concurrency.thread",
    "celery.events",
    "celery.worker.consumer",
    "kombu.transport.redis",
    "worker.app",
    "tests.support.agents",
)
_LONGEST = 65536


class Nursery:
    """The test's end: asks for workers, and learns of their deaths."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.nursery", str(theirs.fileno())],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
                pass_fds=[theirs.fileno()],
            )
        self._news = threading.Condition()
        self._started: list[int] = []
        self._codes: dict[int, int] = {}
        self._gone = False
        self._starting = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while (news := self._receive()) is not None:
            message = json.loads(news)
            with self._news:
                if "started" in message:
                    self._started.append(message["started"])
                else:
                    self._codes[message["ended"]] = message["code"]
                self._news.notify_all()
        with self._news:
            self._gone = True
            self._news.notify_all()

    def _receive(self) -> bytes | None:
        """The next datagram; ``None`` when the other side is gone."""
        try:
            return self._socket.recv(_LONGEST) or None
        except ConnectionResetError:
            return None

    def start(
        self,
        url: str,
        *,
        app: str,
        name: str,
        pool: str = "threads",
        concurrency: int = 4,
        agents: str = "tests.support.agents",
        env: dict[str, str] | None = None,
        options: tuple[str, ...] = (),
    ) -> RunningWorker:
        """A worker that is starting; the arguments are those of ``WorkerProcess``."""
        environment = settings(url, agents, concurrency, env)
        return self.run(name, arguments(app, name, pool, concurrency, options), environment)

    def run(self, name: str, arguments: list[str], env: dict[str, str]) -> RunningWorker:
        """A ``celery`` command in a process of its own.

        Args:
            arguments: behind the word ``celery``.
            env: the environment variables that are the test's.
        """
        request = {"argv": ["celery", *arguments], "env": env}
        reading, writing = os.pipe()
        pid = self._ask(request, writing)
        os.close(writing)
        return RunningWorker(name, pid, os.fdopen(reading), lambda s: self._wait(pid, s))

    def _ask(self, request: dict[str, Any], output: int) -> int:
        with self._starting:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [output])
            with self._news:
                self._news.wait_for(lambda: self._started or self._gone, STOP_TIMEOUT_S)
                if not self._started:
                    raise AssertionError("the nursery does not answer; see what it printed")
                return self._started.pop()

    def _wait(self, pid: int, timeout_s: float) -> int:
        with self._news:
            if not self._news.wait_for(lambda: pid in self._codes, timeout_s):
                raise AssertionError(f"worker process {pid} has not ended")
            return self._codes[pid]

    def close(self) -> None:
        """End the nursery; workers that still live are orphans."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._process.wait(STOP_TIMEOUT_S)


def serve(asked: socket.socket) -> None:
    """Fork until nobody asks any more. Returns in a child as well, ready to be a worker."""
    wakeup, woken = socket.socketpair()
    wakeup.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup.fileno())
    with selectors.DefaultSelector() as selector:
        selector.register(asked, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                woken.recv(_LONGEST)
                _report_dead(asked)
            if asked in ready and not _fork(asked, (wakeup, woken)):
                return


def _report_dead(asked: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        news = {"ended": pid, "code": os.waitstatus_to_exitcode(status)}
        asked.send(json.dumps(news).encode())


def _fork(asked: socket.socket, others: tuple[socket.socket, ...]) -> bool:
    """Answer one request. False in the child; ends the program when nobody asks any more."""
    request, descriptors, _, _ = socket.recv_fds(asked, _LONGEST, 1)
    if not request:
        sys.exit(0)
    pid = os.fork()
    if pid:
        os.close(descriptors[0])
        asked.send(json.dumps({"started": pid}).encode())
        return True
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for other in (asked, *others):
        other.close()
    for target in (1, 2):
        os.dup2(descriptors[0], target)
    os.close(descriptors[0])
    _become(**json.loads(request))
    return False


def _become(argv: list[str], env: dict[str, str]) -> None:
    for name in list(os.environ):
        if name.startswith(OWN_PREFIXES):
            del os.environ[name]
    os.environ.update(env)
    sys.argv[:] = argv


def main() -> NoReturn:
    """Serve; in a child, run the ``celery`` command."""
    for name in _IMPORTED:
        importlib.import_module(name)
    serve(socket.socket(fileno=int(sys.argv[1])))
    from celery.__main__ import main as celery

    celery()
    sys.exit(0)


if __name__ == "__main__":
    main()
