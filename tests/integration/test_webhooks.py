"""Webhooks over real HTTP on loopback: signed, bounded, never redirected."""

from __future__ import annotations

import socket

import pytest

from api_client.webhooks import DELIVERY_HEADER, SIGNATURE_HEADER, verify
from tests.support.receiver import receiving
from worker.announce.webhook import NotDelivered, is_link_local, post

SAID = {"id": "j/1", "event": "paused", "text": "日本 \ud800"}


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


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "[fd00:ec2::254]"]
)
def test_nothing_is_sent_to_a_link_local_address(host: str) -> None:
    with pytest.raises(NotDelivered, match="a link-local address: nothing is sent"):
        send(f"http://{host}/latest/meta-data")


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "example.com", ""])
def test_other_addresses_are_none(host: str) -> None:
    assert not is_link_local(host)


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
