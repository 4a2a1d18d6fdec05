"""An HTTP server on loopback that receives webhooks, and answers as it is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver(ThreadingHTTPServer):
    """Answers each POST with the next status; keeps what it got."""

    daemon_threads = True

    def __init__(self, *answers: Any) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.hold = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers.items()), body))
        answer = self.server.answers.pop(0) if self.server.answers else 200
        if answer == "hang":
            self.server.hold.wait(30)
            return
        if answer == "cut":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(answer)
        if answer in (301, 302, 307, 308):
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def receiving(*answers: Any) -> Iterator[Receiver]:
    receiver = Receiver(*answers)
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.hold.set()
        receiver.shutdown()
        thread.join()
        receiver.server_close()
