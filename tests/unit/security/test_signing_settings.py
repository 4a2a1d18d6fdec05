"""Settings of signed messages that cannot be used are named; a signed message holds JSON only."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import kombu.serialization
import pytest
from kombu.exceptions import DecodeError

from api_client.errors import InvalidInput
from api_client.protection import Protection
from api_client.signing import signed
from tests.support.signers import Signer

registry: Any = kombu.serialization.registry  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    """A key of two thousand bits takes a moment."""
    folder = tmp_path_factory.mktemp("signer")
    return Signer(folder, "ours", folder / "accepted")


def settings(signer: Signer, **changes: str) -> Protection:
    given = {
        "signing_key": str(signer.key),
        "signing_cert": str(signer.cert),
        "signing_cert_store": str(signer.accepted),
    }
    return Protection(**{**given, **changes})  # type: ignore[arg-type]


def test_without_settings_nothing_is_signed() -> None:
    assert signed(Protection()) == {}


@pytest.mark.parametrize("missing", ["signing_key", "signing_cert", "signing_cert_store"])
def test_a_part_alone_is_refused(signer: Signer, missing: str) -> None:
    with pytest.raises(InvalidInput, match=f"STEPKEEPER_{missing.upper()} is not"):
        signed(settings(signer, **{missing: ""}))


@pytest.mark.parametrize("field", ["signing_key", "signing_cert", "signing_cert_store"])
def test_a_file_that_is_not_there_is_named(signer: Signer, field: str) -> None:
    with pytest.raises(InvalidInput, match=f"STEPKEEPER_{field.upper()}='/nowhere/at/all'"):
        signed(settings(signer, **{field: "/nowhere/at/all"}))


@pytest.mark.parametrize("field", ["signing_key", "signing_cert"])
def test_a_file_of_something_else_is_named_and_not_shown(
    signer: Signer, field: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    other.write_text("hunter2hunter2")
    with pytest.raises(InvalidInput, match=f"STEPKEEPER_{field.upper()}=") as told:
        signed(settings(signer, **{field: str(other)}))
    assert "hunter2" not in str(told.value)


def test_what_was_signed_is_read_and_what_was_changed_is_not(signer: Signer) -> None:
    conf = signed(settings(signer))
    assert conf["accept_content"] == ["auth"]
    kind, encoding, body = registry.dumps([["text"], {}], serializer="auth")
    assert registry.loads(body, kind, encoding, accept=["auth"]) == [["text"], {}]
    with pytest.raises(DecodeError):
        registry.loads(body[:-8] + "AAAAAAA=", kind, encoding, accept=["auth"])


def test_the_inner_form_is_json_whatever_the_message_says(signer: Signer) -> None:
    signed(settings(signer))
    kind, encoding, body = registry.dumps([["text"], {}], serializer="auth")
    raw = base64.b64decode(body).replace(b"application/json", b"application/x-python-serialize")
    changed = base64.b64encode(raw).decode()
    with pytest.raises(DecodeError, match="not JSON"):
        registry.loads(changed, kind, encoding, accept=["auth"])
