"""Channels, bodies and signatures of announcements; the office's way of trying again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery, signature

from api_client.errors import InvalidInput
from api_client.webhooks import sign, verify
from tests.support.paused import paused_job
from worker.agent import Agent
from worker.announce import office as office_module
from worker.announce.channels import channels_of, check_webhook
from worker.announce.office import PostOffice, delay_s
from worker.announce.webhook import NotDelivered
from worker.settings import Settings
from worker.store.memory import MemoryStore

URL = "https://example.com/hook"
PLAIN = Settings()
HOOKED = Settings.from_env(webhook_url=URL, webhook_secret="s3cret", webhook_attempts=3)


def agent(**options: Any) -> Agent:
    return Agent(name="shop", goal="Sell.", **options)


@pytest.mark.parametrize(
    ("one", "settings", "paused", "ended"),
    [
        (agent(), PLAIN, (), ()),
        (None, PLAIN, (), ()),
        (None, HOOKED, ("webhook",), ("webhook",)),
        (agent(webhook_url=URL), PLAIN, ("webhook",), ("webhook",)),
        (agent(on_pause=signature("x")), PLAIN, ("task",), ()),
        (agent(on_end=signature("x")), HOOKED, ("webhook",), ("webhook", "task")),
    ],
)
def test_channels(one: Agent | None, settings: Settings, paused: Any, ended: Any) -> None:
    for event in ("paused", "reminder", "escalated"):
        assert channels_of(one, event, settings) == paused
    for event in ("finished", "failed", "cancelled", "ended"):
        assert channels_of(one, event, settings) == ended


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://x/",
        "https://",
        "example.com/hook",
        "http://a:b@example.com/",
    ],
)
def test_a_webhook_that_is_no_plain_http_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="whose: give a URL"):
        check_webhook(url, HOOKED, "whose")


def test_a_webhook_without_a_secret_is_refused() -> None:
    with pytest.raises(InvalidInput, match="STEPKEEPER_WEBHOOK_SECRET"):
        check_webhook(URL, PLAIN, "whose")
    with pytest.raises(InvalidInput, match="link-local"):
        check_webhook("http://169.254.169.254/", HOOKED, "whose")
    check_webhook(URL, HOOKED, "whose")
    check_webhook("", PLAIN, "whose")


def test_the_secret_is_not_shown() -> None:
    assert "s3cret" not in repr(HOOKED)


# --- signatures ------------------------------------------------------------------------------


def test_a_signature_is_the_documented_one() -> None:
    """As ``openssl dgst -sha256 -hmac secret`` computes it over ``1700000000.{"a":1}``."""
    digest = "49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686"
    header = sign("secret", b'{"a":1}', 1_700_000_000)
    assert header == f"t=1700000000,v1={digest}"
    assert verify("secret", header, b'{"a":1}', now=1_700_000_100) == {"a": 1}


@pytest.mark.parametrize(
    ("secret", "header", "body", "now", "said"),
    [
        ("other", "good", b"{}", 0, "not the signature"),
        ("secret", "good", b'{"a":1}', 0, "not the signature"),
        ("secret", "good", b"{}", 301, "301 s old"),
        ("secret", "good", b"{}", -301, "old"),
        ("secret", "", b"{}", 0, "the form is"),
        ("secret", "t=1,v1=zz", b"{}", 0, "the form is"),
        ("secret", "t=²,v1=" + "0" * 64, b"{}", 0, "the form is"),
    ],
)
def test_what_is_not_signed_so_is_refused(
    secret: str, header: str, body: bytes, now: float, said: str
) -> None:
    header = sign("secret", b"{}", 1000) if header == "good" else header
    with pytest.raises(InvalidInput, match=said):
        verify(secret, header, body, now=1000 + now)


# --- the office --------------------------------------------------------------------------------


class Office:
    """A post office over a store in memory; what it sends by HTTP goes to ``send``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.now = 1_700_000_000_000
        self.store = MemoryStore(lambda: self.now)
        self.sent: list[tuple[str, dict[str, Any], str]] = []
        self.send: Callable[[], None] = lambda: None
        monkeypatch.setattr(office_module, "post", self._post)
        self.app = Celery("test", broker="memory://", set_as_current=False)
        agents = {"shop": agent(**options)}
        self.office = PostOffice(self.app, HOOKED, agents, lambda: self.store, clock=lambda: 1e9)

    def _post(self, url: str, said: Any, secret: str, at: int, timeout_s: float) -> None:
        self.send()
        assert (secret, at, timeout_s) == ("s3cret", 10**9, 10.0)
        self.sent.append((url, dict(said), secret))

    def pause(self, *channels: str) -> str:
        job_id = paused_job(self.store)
        job = self.store._jobs[job_id]
        self.store._announce(job, channels, "paused")
        return job_id

    @property
    def state(self) -> tuple[str, int, str]:
        (delivery,) = self.store.deliveries()
        return delivery.state, delivery.tries, delivery.error


def test_a_pause_is_announced_with_all_that_a_receiver_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Office(monkeypatch)
    job_id = case.pause("webhook")
    assert case.office.deliver_due() == 1
    ((url, said, _),) = case.sent
    assert url == URL
    assert (said["id"], said["event"], said["job_id"]) == (f"{job_id}/1", "paused", job_id)
    assert (said["agent"], said["status"], said["at"]) == ("shop", "paused", case.now)
    assert said["pause"]["id"] == "p1"
    assert "answer" in said["pause"]["answer_schema"]
    assert case.state == ("delivered", 1, "")
    assert case.office.deliver_due() == 0


def test_an_agents_own_url_goes_before_the_general_one(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Office(monkeypatch, webhook_url="https://example.com/own")
    case.pause("webhook")
    case.office.deliver_due()
    assert case.sent[0][0] == "https://example.com/own"


def test_a_failed_attempt_is_made_again_later_and_given_up_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Office(monkeypatch)
    case.pause("webhook")

    def fail() -> None:
        raise NotDelivered("the receiver answered 500")

    case.send = fail
    for tries, delay in ((1, 5), (2, 10)):
        assert case.office.deliver_due() == 1
        assert case.state == ("pending", tries, "the receiver answered 500")
        case.now += delay * 1000 - 1
        assert case.office.deliver_due() == 0
        case.now += 1
    assert case.office.deliver_due() == 1
    assert case.state == ("given_up", 3, "the receiver answered 500")
    case.now += 10**9
    assert case.office.deliver_due() == 0


def test_delays_grow_and_are_bounded() -> None:
    assert [delay_s(tries) for tries in (1, 2, 3, 10, 11, 1000)] == [5, 10, 20, 2560, 3600, 3600]


def test_several_are_delivered_at_once_and_one_failure_keeps_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Office(monkeypatch)
    job_id = case.pause("webhook", "nowhere", "webhook")
    assert case.office.deliver_due() == 3
    states = {d.id: d.state for d in case.store.deliveries(job_id)}
    assert states == {
        f"{job_id}/1": "delivered",
        f"{job_id}/2": "pending",
        f"{job_id}/3": "delivered",
    }


def test_a_signature_is_sent_with_the_announcement_as_its_first_argument(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = signature("notes.add", kwargs={"channel": "#desk"}, queue="notes")
    case = Office(monkeypatch, on_pause=wanted)
    job_id = case.pause("task")
    case.office.deliver_due()
    assert case.state[0] == "delivered"
    with case.app.connection_for_read() as connection:
        message = connection.SimpleQueue("notes").get(block=False)
    args, kwargs, _ = message.payload
    assert args[0]["job_id"] == job_id
    assert kwargs == {"channel": "#desk"}
    assert message.headers["task"] == "notes.add"
    assert message.headers["id"] == "4c1d9c29-2123-5139-a3e5-30c79d81f492", "the same each time"


def test_whether_anybody_is_to_be_told_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Office(monkeypatch)
    assert case.office.needed
    silent = PostOffice(case.app, PLAIN, {"shop": agent()}, lambda: case.store)
    assert not silent.needed
