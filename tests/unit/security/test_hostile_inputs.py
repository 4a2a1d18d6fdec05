"""What is deep, huge, odd or half: refused at each entrance in one line, or read as text."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from api_client.contract import JobSpec
from api_client.deciding import parse_signal
from api_client.errors import InvalidInput, SignalRefused
from api_client.sealing import unseal
from api_client.specs import make_spec, spec_from_call
from worker.models.base import ModelError
from worker.models.json_body import count, from_json
from worker.strict_json import strict_json


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def by_client(value: Any) -> JobSpec:
    return make_spec(job_id="j", agent="shop", input=value)


def by_celery(value: Any) -> JobSpec:
    return spec_from_call("j", "shop", [value], {}, retention_s=60, message={})


def as_metadata(value: Any) -> JobSpec:
    return make_spec(job_id="j", agent="shop", input="x", metadata={"m": value})


def as_decision(value: Any) -> Any:
    return parse_signal({"kind": "answer", "value": value})


ENTRANCES: list[Callable[[Any], Any]] = [by_client, by_celery, as_metadata, as_decision]


@pytest.mark.parametrize("enter", ENTRANCES)
@pytest.mark.parametrize(
    "value",
    [
        nested(101),
        nested(100_000),
        float("inf"),
        float("nan"),
        [1e999],
        "\ud800",
        {"\udfff": 1},
        "x" * 2_000_000,
        {str(n): n for n in range(200_000)},
        b"bytes",
        object(),
    ],
    ids=[
        *("deep", "very deep", "infinite", "no number", "1e999", "half a pair", "half a name"),
        *("long", "wide", "bytes", "an object"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_line(
    enter: Callable[[Any], Any], value: Any
) -> None:
    with pytest.raises((InvalidInput, SignalRefused)) as told:
        enter(value)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 2_000


@pytest.mark.parametrize("enter", ENTRANCES)
@pytest.mark.parametrize("value", ["\0", "\x1b[2J", "\u202e", 10**300, -(2**63), 5e-324])
def test_what_is_odd_and_json_comes_through(enter: Callable[[Any], Any], value: Any) -> None:
    enter(value)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b"1" * 1_000_000,
        b"\xff\xfe",
        b"",
        b'{"a": 1',
        b'"\x00"',
    ],
    ids=["lists", "objects", "a number", "no UTF-8", "nothing", "half", "NUL"],
)
def test_a_model_that_does_not_answer_json_is_asked_again(raw: bytes) -> None:
    with pytest.raises(ModelError) as told:
        from_json(raw)
    assert told.value.fate == "retry"
    assert len(str(told.value)) < 500


@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "NaN", "-1", "true", "1" * 4000, '"7"', "[]"]
)
def test_a_count_of_tokens_that_cannot_be_is_none(number: str) -> None:
    assert count(json.loads(number)) is None


def test_half_a_pair_in_a_reply_is_replaced() -> None:
    assert from_json(b'{"a\\ud800": "\\udfff"}') == {"a\ufffd": "\ufffd"}


def test_of_a_name_that_stands_twice_the_last_one_counts_everywhere() -> None:
    text = '{"amount": 1, "amount": 2}'
    assert strict_json(text) == from_json(text.encode()) == json.loads(text) == {"amount": 2}


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "[" * 100_000, "1e400e"])
def test_arguments_that_are_no_json_are_refused(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        strict_json(text)


def test_a_few_stored_bytes_do_not_become_gigabytes() -> None:
    bomb = zlib.compress(b"0" * 300_000_000, 9)
    with pytest.raises(ValueError, match="more than"):
        unseal(b"\x01z" + bomb, "job", "message")
