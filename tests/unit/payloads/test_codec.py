"""What stands in Redis in place of a text."""

from __future__ import annotations

import json
import random
import string
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_client import codec
from api_client.sizes import sizes


@pytest.fixture(autouse=True)
def _fresh_sizes() -> Iterator[None]:
    sizes.cache_clear()
    yield
    sizes.cache_clear()


def noise(length: int) -> str:
    dice = random.Random(1)
    return "".join(dice.choices(string.ascii_letters + string.digits, k=length))


def test_a_short_text_is_stored_as_it_is() -> None:
    text = json.dumps("x" * 1000)
    assert codec.encode(text) is text


def test_a_long_one_is_packed_and_comes_back() -> None:
    text = json.dumps({"content": "Where is order 1187? " * 2000})
    packed = codec.encode(text)
    assert isinstance(packed, bytes)
    assert len(packed) < len(text) / 20
    assert codec.decode(packed) == text.encode()
    assert codec.decoded(packed) == text


def test_what_packing_does_not_shorten_is_stored_as_it_is() -> None:
    packed = zlib.compress(noise(30_000).encode())
    assert codec.pack(packed) == packed


@pytest.mark.parametrize(("threshold", "packs"), [("100", True), ("0", False), ("5000", False)])
def test_the_setting_says_what_is_long(
    monkeypatch: pytest.MonkeyPatch, threshold: str, packs: bool
) -> None:
    monkeypatch.setenv("STEPKEEPER_COMPRESS_OVER_BYTES", threshold)
    assert isinstance(codec.encode('"' + "a" * 1000 + '"'), bytes) is packs


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_no_json_text_begins_like_something_packed(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert codec.decode(text) == text


@given(st.binary())
def test_whatever_is_packed_comes_back(data: bytes) -> None:
    assert codec.unpack(codec.ZLIB + zlib.compress(data)) == data


def test_a_form_of_a_newer_version_is_named() -> None:
    with pytest.raises(ValueError, match=r"form b'q', which this version does not know; upgrade"):
        codec.decode(b"\x01qsecret")


@pytest.mark.parametrize("stored", [b"\x01z", b"\x01zgarbage", b"\x01z" + zlib.compress(b"x")[:-1]])
def test_damage_is_named_without_what_was_stored(stored: bytes) -> None:
    with pytest.raises(ValueError, match="damaged") as caught:
        codec.decode(stored)
    assert "garbage" not in str(caught.value)
