"""The outside world of a chaos run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api_client.errors import InvalidInput
from worker.chaos.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger.sqlite3")


def test_a_put_takes_place_once_a_key_and_a_pay_each_time(ledger: Ledger) -> None:
    for tool in ("put", "pay"):
        ledger.apply(tool, "1.1.0", f"{tool} key")
        ledger.apply(tool, "1.1.0", f"{tool} key")
    found = ledger.entries()
    assert found.attempts == {("put", "1.1.0"): 2, ("pay", "1.1.0"): 2}
    assert found.applied == {("put", "1.1.0"): 1, ("pay", "1.1.0"): 2}


def test_a_put_under_a_second_key_is_a_second_effect(ledger: Ledger) -> None:
    ledger.apply("put", "1.1.0", "key")
    ledger.apply("put", "1.1.0", "other key")
    assert ledger.entries().applied["put", "1.1.0"] == 2


def test_a_look_is_only_noted_as_asked_for(ledger: Ledger) -> None:
    ledger.apply("look", "1.1.0", "key")
    assert ledger.entries().attempts["look", "1.1.0"] == 1
    assert not ledger.has("key")


def test_a_person_finds_what_was_done_by_its_key(ledger: Ledger) -> None:
    assert not ledger.has("key")
    ledger.apply("pay", "1.1.0", "key")
    assert ledger.has("key")


def test_only_the_first_call_at_a_place_is_refused(ledger: Ledger) -> None:
    assert [ledger.refuse_once(place) for place in ("1.1", "1.1", "1.2")] == [True, False, True]


def test_many_at_once_lose_nothing_and_double_nothing(ledger: Ledger) -> None:
    with ThreadPoolExecutor(16) as pool:
        for future in [pool.submit(ledger.apply, "put", "1.1.0", "key") for _ in range(100)]:
            future.result()
    found = ledger.entries()
    assert (found.attempts["put", "1.1.0"], found.applied["put", "1.1.0"]) == (100, 1)


def test_the_ledger_of_an_earlier_run_is_not_used_again(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="earlier run"):
        Ledger.create(ledger.path)
