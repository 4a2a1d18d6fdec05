"""D1: what is a secret, and what stays readable."""

import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from worker.context import ActionContext
from worker.redact import (
    MARK,
    Redactor,
    environment_secrets,
    hide_everywhere,
    is_secret_name,
    looks_secret,
)

TOKENS = [
    "sk-proj-abcdefghijklmnop1234",
    "sk_live_51Habcdefgh",
    "ghp_abcdefghijklmnopqrst0123456789",
    "github_pat_11ABCDEFG0abcdefghijkl",
    "glpat-abcdefghijklmnopqrst",
    "xoxb-123456789012-abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghijklmnopqrstu",
    "hf_abcdefghijklmnopqrstuvwx",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF-123",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_are_hidden_by_their_shape(token: str) -> None:
    assert Redactor().text(f"before {token} after") == f"before {MARK} after"
    assert Redactor().error(f"before {token} after") == f"before {MARK} after"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://svc:s3cret@db/prod", f"postgres://{MARK}@db/prod"),
        ("redis://:s3cret@db:6379/0", f"redis://{MARK}@db:6379/0"),
        ("https://u:p@ss@host/x@y", f"https://{MARK}@host/x@y"),
        ("Authorization: Bearer abcDEF123456xyz", f"Authorization: Bearer {MARK}"),
        ("authorization: basic dXNlcjpwYXNz", f"authorization: basic {MARK}"),
    ],
)
def test_credentials_in_addresses_and_headers_are_hidden(text: str, shown: str) -> None:
    assert Redactor().text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "proxy = http://user:password@localhost:8030",
        "git clone ssh://git@host/repo",
        "mail a@b.example, see http://host:80/x@y",
        "Authorization: Bearer <token>",
        "a basic understanding of bearer instruments",
        "task-list desk-1234567890123 risk-assessment-of-things",
        "key = YOUR_API_KEY",
    ],
)
def test_documentation_stays_readable(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("login failed: password=hunter22 for x", "hunter22"),
        ('{"api_key": "abcd1234", "x": 1}', "abcd1234"),
        ("client_secret: 'verysecret'", "verysecret"),
        ("http://user:password@localhost:8030", "password"),
        ("X-Auth-Token=abcdefgh", "abcdefgh"),
        ("ssh://deploy@host", "deploy"),
    ],
)
def test_errors_are_treated_more_strictly(text: str, hidden: str) -> None:
    shown = Redactor().error(text)
    assert hidden not in shown
    assert MARK in shown


def test_an_error_without_secrets_stays_as_it_is() -> None:
    text = "[Errno 2] No such file or directory: 'docs/tokens.md' (token 7, key error)"
    assert Redactor().error(text) == text


def test_a_list_of_secrets_is_hidden_in_every_form() -> None:
    hiding = Redactor(['p"ss/w\\rd é'])
    for form in (
        'p"ss/w\\rd é',
        'p\\"ss/w\\\\rd é',
        "p%22ss%2Fw%5Crd%20%C3%A9",
        'p\\"ss/w\\\\rd \\u00e9',
    ):
        assert hiding.text(f"<{form}>") == f"<{MARK}>"


def test_a_secret_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="4 characters"):
        Redactor(["abc"])


def test_json_values_are_copied_without_secrets() -> None:
    value = {"a": ["xyzzy1", 1, None], "xyzzy1": True}
    assert Redactor(["xyzzy1"]).value(value) == {"a": [MARK, 1, None], MARK: True}
    assert value["a"] == ["xyzzy1", 1, None]


class Settings(BaseModel):
    smtp_password: SecretStr = SecretStr("smtp-pass")
    host: str = "mail.example"


class Client:
    def __init__(self) -> None:
        self.api_key = "client-key"
        self.base = "https://api.example"


@dataclass
class Everything(ActionContext):
    visible = ("tenant",)
    secret = ("passage",)
    api_key: str = "abcdef"
    passage: str = "open sesame"
    generated: str = "a8f3b2c9d1e0f4a7c3"
    url: str = "amqp://svc:rabbit99@mq/vhost"
    settings: Settings = field(default_factory=Settings)
    client: Client = field(default_factory=Client)
    headers: dict[str, Any] = field(default_factory=lambda: {"Cookie": "sid=abc", "Accept": "text"})
    keys: tuple[str, ...] = ("first-key", "second-key")
    raw: bytes = b"rawbytes"
    region: str = "north-west"
    tenant: str = "tenant-one"
    sort_key: str = "surname"
    number: int = 123456


@pytest.mark.parametrize(
    "secret",
    ["abcdef", "open sesame", "a8f3b2c9d1e0f4a7c3", "rabbit99", "smtp-pass", "client-key",
     "sid=abc", "first-key", "second-key"],
)  # fmt: skip
def test_secrets_of_a_context_are_hidden_everywhere(secret: str) -> None:
    hiding = Redactor().knowing(Everything())
    assert hiding.text(f"<{secret}>") == f"<{MARK}>"
    assert hiding.error(f"<{secret}>") == f"<{MARK}>"


@pytest.mark.parametrize("text", ["north-west", "mail.example", "rawbytes", "surname"])
def test_other_texts_of_a_context_are_hidden_in_errors(text: str) -> None:
    hiding = Redactor().knowing(Everything())
    assert hiding.text(text) == text
    assert hiding.error(text) == MARK


def test_visible_fields_and_numbers_stay() -> None:
    hiding = Redactor().knowing(Everything())
    assert hiding.error("tenant-one 123456") == "tenant-one 123456"


def test_slots_models_and_plain_contexts_are_read() -> None:
    @dataclass(slots=True)
    class Slotted(ActionContext):
        token: str = "slot-secret"

    class Model(BaseModel, ActionContext):
        token: str = "model-secret"

    for ctx, secret in ((Slotted(), "slot-secret"), (Model(), "model-secret")):
        assert Redactor().knowing(ctx).text(secret) == MARK


def test_a_password_that_is_also_a_word_of_its_address_hides_no_words() -> None:
    @dataclass
    class Dev(ActionContext):
        broker: str = "postgres://postgres:postgres@localhost/app"

    hiding = Redactor().knowing(Dev())
    assert hiding.text("uses postgres") == "uses postgres"
    assert hiding.text(Dev().broker) == f"postgres://{MARK}@localhost/app"


def test_a_secret_that_changes_is_hidden_in_its_new_form() -> None:
    ctx = Everything()
    ctx.api_key = "new-value"
    assert Redactor().knowing(ctx).text("new-value") == MARK


@pytest.mark.parametrize(
    ("name", "expected"),
    [("api_key", True), ("API_TOKEN", True), ("dsn", True), ("password", True), ("key", True),
     ("database_url", True), ("primary_key", False), ("author", False), ("max_tokens", False),
     ("tokenizer", False), ("compass", False), ("tenant", False)],
)  # fmt: skip
def test_names_of_secrets(name: str, expected: bool) -> None:
    assert is_secret_name(name) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("a8f3b2c9d1e0f4a7c3", True), ("123e4567-e89b-12d3-a456-426614174000", False),
     ("a-name-with-many-words", False), ("2026-11-30T12:00:00", False),
     ("order-0000000000012", False),
     ("/srv/data/2026/file-1.txt", False)],
)  # fmt: skip
def test_shapes_of_secrets(value: str, expected: bool) -> None:
    assert looks_secret(value) is expected


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "://" * 60_000,
        "token" * 40_000,
        "eyJ" * 60_000,
        "sk-" * 60_000,
        "basic " * 30_000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    before = time.process_time()
    Redactor().text(text)
    Redactor().error(text)
    assert time.process_time() - before < 2


def test_what_the_class_of_a_context_holds_is_hidden_as_well() -> None:
    class Base(ActionContext):
        password = "hunter2-of-the-base"

    class Shop(Base):
        secret = ("region",)
        visible = ("city",)
        region = "north-by-north-west"
        city = "Rotterdam-Zuid"
        login: SecretStr = SecretStr("correct-horse-battery")

    redactor = Redactor().knowing(Shop())
    assert redactor.text("hunter2-of-the-base, correct-horse-battery, north-by-north-west") == (
        f"{MARK}, {MARK}, {MARK}"
    )
    assert redactor.error("no region in Rotterdam-Zuid") == "no region in Rotterdam-Zuid"


def test_what_the_environment_holds_is_hidden_by_every_redactor() -> None:
    made_before = Redactor()
    secrets = environment_secrets(
        {
            "LLM_API_KEY": "no-shape-51c0ffee",
            "STEPKEEPER_REDIS_URL": "redis://worker:p%2Bss-51c0ffee@host/0",
            "PWD": "/home/anna",
            "SOME_TOKEN": "disabled",
            "A_KEY": "short",
        }
    )
    hide_everywhere(secrets)
    for redactor in (made_before, made_before.knowing(None), Redactor(["another one"])):
        for hide in (redactor.text, redactor.error):
            told = hide("no-shape-51c0ffee p+ss-51c0ffee p%2Bss-51c0ffee short")
            assert told == f"{MARK} {MARK} {MARK} short"
            assert hide("disabled in /home/anna") == "disabled in /home/anna"
    assert made_before.longest == len("no-shape-51c0ffee")
    hide_everywhere(())
    assert made_before.text("no-shape-51c0ffee") == "no-shape-51c0ffee"
