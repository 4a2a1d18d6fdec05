"""How large what is stored may be, and what is said of what is larger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_client.deciding import parse_signal
from api_client.errors import InvalidInput
from api_client.sizes import deeper_than, size_of, sizes
from api_client.specs import make_spec, spec_from_call


@pytest.fixture(autouse=True)
def _fresh_sizes() -> Iterator[None]:
    sizes.cache_clear()
    yield
    sizes.cache_clear()


def refused(**fields: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        make_spec(job_id="j", agent="shop", **{"input": "x", **fields})
    return str(caught.value)


def test_an_input_that_is_too_large_names_field_size_limit_and_setting() -> None:
    text = refused(input="ä" * 500_000)
    assert text == (
        "input: 1,000,002 bytes as JSON, at most 1,000,000 are allowed "
        "(STEPKEEPER_MAX_INPUT_BYTES); store it elsewhere and pass a reference"
    )


def test_so_does_metadata() -> None:
    text = refused(metadata={"a": "x" * 100_000})
    assert "metadata: 100,008 bytes as JSON, at most 100,000" in text
    assert "STEPKEEPER_MAX_METADATA_BYTES" in text


def test_a_call_by_celery_is_measured_as_well() -> None:
    with pytest.raises(InvalidInput, match="input: 1,000,003 bytes"):
        spec_from_call("j", "shop", ["x" * 1_000_001], {}, retention_s=1, message={})


@pytest.mark.parametrize(
    "signal",
    [
        {"kind": "answer", "value": "x" * 200_000},
        {"kind": "approve", "arguments": {"a": "x" * 200_000}},
        {"kind": "edit", "answers": {"call_1": "x" * 200_000}},
        {"kind": "finish", "answer": ["x" * 200_000]},
    ],
)
def test_a_decision_that_is_too_large_is_refused_whatever_it_is(signal: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"signal: 200,\d+ bytes .*STEPKEEPER_MAX_SIGNAL_BYTES"):
        parse_signal(signal)


def test_settings_change_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPKEEPER_MAX_INPUT_BYTES", "10")
    monkeypatch.setenv("STEPKEEPER_MAX_DEPTH", "5")
    assert "input: 11 bytes as JSON, at most 10" in refused(input="123456789")
    assert "input: nested more than 5 levels deep (STEPKEEPER_MAX_DEPTH)" in refused(
        input=[[[[[[1]]]]]]
    )


def test_a_setting_that_cannot_be_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPKEEPER_MAX_DEPTH", "-1")
    with pytest.raises(InvalidInput, match="STEPKEEPER_MAX_DEPTH='-1'"):
        sizes()


@pytest.mark.parametrize(
    ("value", "depth"),
    [(1, 0), ("x", 0), ([], 1), ({}, 1), ([1, [2]], 2), ({"a": {"b": [1]}}, 3), ([[], 1], 2)],
)
def test_depth_is_levels_of_lists_and_objects(value: Any, depth: int) -> None:
    assert not deeper_than(value, depth)
    assert depth == 0 or deeper_than(value, depth - 1)


def test_no_depth_is_too_deep_to_be_refused() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    assert deeper_than(value, 7)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 999) | st.text(max_size=50),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
)


@given(_JSON)
def test_the_estimated_size_is_near_the_true_one(value: Any) -> None:
    true = len(
        json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    )
    escapes = json.dumps(value, ensure_ascii=False).count("\\")
    parts = json.dumps(value).count(",") + json.dumps(value).count(":") + 2
    assert true - 6 * escapes - 2 <= size_of(value) <= true + 6 * parts
