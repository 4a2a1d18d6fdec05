"""Webhooks over real HTTP on loopback: signed, bounded, never redirected."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from api_client.webhooks import DELIVERY_HEADER, SIGNATURE_HEADER, verify
from worker.announce.webhook import NotDelivered, post

SAID = {"id": "j/1", "event": "paused", "text": "日本 \ud800"}


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


def send(url: str, timeout_s: float = 5.0) -> None:
    post(url, SAID, "s3cret", 1_700_000_000, timeout_s)


@pytest.mark.parametrize("status", [200, 202, 204])
def test_an_announcement_arrives_signed(status: int) -> None:
    with receiving(status) as receiver:
        send(receiver.url)
        ((path, headers, body),) = receiver.got
    assert path == "/hook"
    assert headers["Content-Type"] == "application/json"
    assert headers[DELIVERY_HEADER] == "j/1"
    said = verify("s3cret", headers[SIGNATURE_HEADER], body, now=1_700_000_000)
    assert said == SAID
    assert b"s3cret" not in body
    assert "s3cret" not in str(headers)


@pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503])
def test_any_other_answer_is_a_failed_attempt(status: int) -> None:
    with receiving(status) as receiver, pytest.raises(NotDelivered, match=str(status)):
        send(receiver.url)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with receiving(status) as receiver:
        with pytest.raises(NotDelivered, match=str(status)):
            send(receiver.url)
        assert [path for path, _, _ in receiver.got] == ["/hook"]


def test_a_receiver_that_never_answers_is_given_up_in_time() -> None:
    with receiving("hang") as receiver, pytest.raises(NotDelivered, match="timed out"):
        send(receiver.url, timeout_s=0.3)


def test_a_connection_that_breaks_is_a_failed_attempt() -> None:
    with receiving("cut") as receiver, pytest.raises(NotDelivered, match=r"broken off|not reached"):
        send(receiver.url)


def test_nobody_there_is_a_failed_attempt() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NotDelivered, match="not reached"):
        send(f"http://127.0.0.1:{port}/hook")
