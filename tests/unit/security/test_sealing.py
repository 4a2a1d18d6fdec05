"""Sealed texts: what opens them, what does not, and how that is told."""

from __future__ import annotations

import json

import pytest
from celery import Celery
from hypothesis import given
from hypothesis import strategies as st

from api_client import sealing
from api_client.contract import Outcome, Pause
from api_client.errors import InvalidInput
from api_client.records import field_text, read_event, sealed_run, stored_outcome, stored_pause
from api_client.sealing import CannotOpen, Keyring, new_key, read_keyring, seal, unseal
from tests.support.ciphers import UseKeys
from worker.celery_config import protect

CANARY = "canary-5c1e7"


@given(st.binary())
def test_whatever_is_sealed_comes_back(data: bytes) -> None:
    ring = Keyring([b"k" * 32])
    sealed = ring.seal(data, "job", "message")
    assert ring.open(sealed, "job", "message") == data
    assert ring.seal(data, "job", "message") != sealed


@pytest.mark.parametrize(("job", "place"), [("other", "message"), ("job", "trace")])
def test_a_text_from_another_job_or_place_does_not_open(
    encryption: UseKeys, job: str, place: str
) -> None:
    stored = seal(json.dumps(CANARY), "job", "message")
    assert isinstance(stored, bytes)
    assert CANARY.encode() not in stored
    with pytest.raises(CannotOpen, match="another job or place, or changed"):
        unseal(stored, job, place)


def test_a_changed_text_does_not_open(encryption: UseKeys) -> None:
    stored = seal(json.dumps(CANARY), "job", "message")
    assert isinstance(stored, bytes)
    for at in (6, 17, len(stored) - 1):
        changed = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
        with pytest.raises(CannotOpen):
            unseal(changed, "job", "message")
    for short in range(2, 30):
        with pytest.raises(CannotOpen):
            unseal(stored[:short], "job", "message")


def test_a_missing_key_is_named_with_its_setting(encryption: UseKeys) -> None:
    stored = seal("1", "job", "message")
    assert isinstance(stored, bytes)
    name = sealing.keyring().names[0]
    for keys in ("", new_key()):
        encryption(keys)
        with pytest.raises(CannotOpen, match=f"the key {name}, which is not in STEPKEEPER_ENCRYP"):
            unseal(stored, "job", "message")


def test_the_first_key_seals_and_every_key_opens(encryption: UseKeys) -> None:
    old, new = new_key(), new_key()
    encryption(old)
    before = seal("1", "job", "message")
    encryption(f"{new}, {old}")
    after = seal("2", "job", "message")
    assert isinstance(before, bytes)
    assert isinstance(after, bytes)
    assert (unseal(before, "job", "message"), unseal(after, "job", "message")) == (b"1", b"2")
    assert (sealing.keyring().is_first(before), sealing.keyring().is_first(after)) == (False, True)
    encryption(new)
    assert unseal(after, "job", "message") == b"2"


def test_without_keys_nothing_changes() -> None:
    assert seal("[1]", "job", "message") == "[1]"
    assert sealed_run("job", '3 {"s":1}') == '3 {"s":1}'
    assert sealing.hide({"by": "x"}, (), "job", "trace") == '{"by":"x"}'


def test_what_was_stored_in_the_clear_is_read_with_keys(encryption: UseKeys) -> None:
    assert unseal(b"[1]", "job", "message") == b"[1]"
    assert field_text("job", "run", b'3 {"s":1}') == '3 {"s":1}'


@pytest.mark.parametrize("key", ["short", "!" * 44, "A" * 43, "ü" * 44, "QUJD" * 10])
def test_a_key_of_another_form_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(InvalidInput, match="its key number 2 is not 32 bytes") as told:
        read_keyring(f"{new_key()},{key}")
    assert key not in str(told.value)


def test_a_worker_with_a_key_of_another_form_does_not_start(encryption: UseKeys) -> None:
    encryption("short")
    with pytest.raises(InvalidInput, match="its key number 1"):
        protect(Celery("existing", set_as_current=False))


def test_scripts_can_read_what_they_need_and_nothing_else(encryption: UseKeys) -> None:
    pause = Pause.model_validate(
        {
            "id": "p1",
            "kind": "approval",
            "question": CANARY,
            "accepts": ["approve", "deny"],
            "labels": ["sales"],
            "details": {"x": CANARY},
            "timetable": [
                {"after_s": 5, "do": "decide", "signal": {"kind": "deny", "note": CANARY}}
            ],
        }
    )
    stored = stored_pause(pause, "job")
    assert CANARY not in stored
    shown = json.loads(stored)
    assert shown["accepts"] == ["approve", "deny"]
    assert shown["timetable"] == [{"after_s": 5.0, "do": "decide"}]
    read = Pause.model_validate_json(field_text("job", "pause", stored.encode()))
    assert read == pause
    failure = stored_outcome(Outcome(ok=False, reason="stopped", text=CANARY), "job")
    assert isinstance(failure, str)
    assert CANARY not in failure
    assert json.loads(failure)["reason"] == "stopped"
    assert CANARY in field_text("job", "outcome", failure.encode())
    with pytest.raises(CannotOpen):
        field_text("other", "outcome", failure.encode())


def test_a_record_of_a_trace_that_cannot_be_opened_says_so(encryption: UseKeys) -> None:
    stored = seal("{}", "job", "trace")
    assert isinstance(stored, bytes)
    encryption(new_key())
    event = read_event("job", b"1-0", {b"note": stored})
    assert event.kind == "unreadable"
    assert "STEPKEEPER_ENCRYPTION_KEYS" in str(event.data)


def test_keys_stand_in_no_repr(encryption: UseKeys) -> None:
    key = new_key()
    encryption(key)
    from api_client.protection import protection

    ring = sealing.keyring()
    told = repr(protection()) + repr(ring) + str(ring.names) + protection().model_dump_json()
    assert key not in told
