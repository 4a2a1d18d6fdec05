"""Secrets that are planted in the environment come out nowhere."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from api_client.connection import describe
from api_client.sealing import new_key
from api_client.specs import make_spec
from worker.ends import Deferred
from worker.following import report_deferred
from worker.redact import Redactor, environment_secrets
from worker.settings import Settings
from worker.telemetry.formats import make_formatter

FIRST, SECOND = new_key(), new_key()
PLANTED = {
    "LLM_API_KEY": "model-key-51c0ffee",
    "STEPKEEPER_REDIS_URL": "redis://worker:redis-pass-51c0ffee@db.example:6379/0",
    "STEPKEEPER_BROKER_URL": "amqps://worker:broker%2Bpass-51c0ffee@mq.example/v",
    "STEPKEEPER_WEBHOOK_SECRET": "hmac-secret-51c0ffee",
    "STEPKEEPER_ENCRYPTION_KEYS": f"{FIRST},{SECOND}",
}
SECRETS = [
    "model-key-51c0ffee",
    "redis-pass-51c0ffee",
    "broker+pass-51c0ffee",
    "broker%2Bpass-51c0ffee",
    "hmac-secret-51c0ffee",
    FIRST,
    SECOND,
]


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("kind", ["console", "json"])
def test_no_log_line_shows_one(kind: Any) -> None:
    formatter = make_formatter(kind, Redactor(environment_secrets(PLANTED)), color=False)
    for secret in SECRETS:
        error = ValueError(f"raised with {secret}")
        said = ("x", logging.ERROR, "f.py", 1, "said %s to %s", (secret, secret))
        record = logging.LogRecord(*said, (ValueError, error, None))
        line = formatter.format(record)
        assert secret not in line
        assert "raised with" in line


def test_no_repr_of_settings_shows_one() -> None:
    settings = Settings.from_env()
    assert settings.redis_url == PLANTED["STEPKEEPER_REDIS_URL"]
    for told in (repr(settings), str(settings)):
        assert "db.example" in told
        assert not [secret for secret in SECRETS if secret in told]


@pytest.mark.parametrize("name", ["STEPKEEPER_REDIS_URL", "STEPKEEPER_BROKER_URL"])
def test_a_server_is_named_without_its_password(name: str) -> None:
    told = describe(PLANTED[name]) if name.endswith("REDIS_URL") else Redactor().text(PLANTED[name])
    assert "51c0ffee" not in told


def test_the_result_backend_shows_a_wait_without_one() -> None:
    shown: list[Any] = []
    backend = SimpleNamespace(store_result=lambda *args: shown.append(args))
    store = SimpleNamespace(read=lambda _id: SimpleNamespace(outcome=None, published=False))
    service: Any = SimpleNamespace(
        app=SimpleNamespace(backend=backend), store=store, settings=Settings.from_env()
    )
    spec = make_spec(job_id="j", agent="shop", input="x")
    text = f"429 for api_key={SECRETS[0]} at {PLANTED['STEPKEEPER_REDIS_URL']}"
    report_deferred(service, Deferred(spec, 1.0, text, 1))
    [(_, error, state)] = shown
    assert state == "RETRY"
    assert "429" in str(error)
    assert "51c0ffee" not in str(error)
