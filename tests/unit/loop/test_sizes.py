"""How much a job may store, and how large its replies and its answer may be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api_client.contract import Extend, PauseKind, Retry
from api_client.sizes import DEFAULT_SIZES, Sizes, size_of
from tests.unit.loop.bench import Bench
from tests.unit.loop.driver import Driver, Script, drive
from worker.agent import Agent
from worker.effects import Failed, Finished, Paused
from worker.models.scripted import act, say
from worker.tools import tool


def sizes(**changed: Any) -> Sizes:
    return DEFAULT_SIZES.model_copy(update=changed)


def steps(count: int) -> list[Any]:
    return [act("", ("long", {"x": 100 + n})) for n in range(count)]


def test_what_is_stored_is_counted_over_slices(bench: Bench) -> None:
    driver, end = drive(bench.agent(), [*steps(3), act("", ("ping", {})), "done"])
    assert isinstance(end, Finished)
    assert driver.state().stored == sum(map(size_of, driver.messages))
    text = sum(len(json.dumps(message)) for message in driver.messages)
    assert 0.9 * text < driver.state().stored < 1.1 * text


def test_a_job_that_was_not_counted_is_counted_once(bench: Bench) -> None:
    driver = Driver(bench.agent(on_limit="stop"), Script([*steps(9), "done"]))
    driver.sizes = sizes(job_quota_bytes=4000)
    driver.slice()
    state = driver.state()
    assert state.stored > 4000
    state.stored = 0
    driver.run = state.dump()
    assert isinstance(driver.go(), Failed)
    assert driver.state().stored == sum(map(size_of, driver.messages))


def test_a_spent_quota_pauses_and_names_itself(bench: Bench) -> None:
    driver = Driver(bench.agent(), Script([*steps(9), "done"]), sizes=sizes(job_quota_bytes=5000))
    end = driver.go()
    assert isinstance(end, Paused)
    assert end.pause.kind is PauseKind.BUDGET
    assert "of 5000 bytes of stored messages (STEPKEEPER_JOB_QUOTA_BYTES)" in end.pause.question
    assert end.pause.details["budget"] == "stored_bytes"
    spent = end.pause.details["spent"]
    assert isinstance(spent, int)
    assert 5000 <= spent < 7000
    made = len(driver.requests)
    assert 3 <= made <= 6


def test_a_person_can_give_it_more_room(bench: Bench) -> None:
    driver = Driver(bench.agent(), Script([*steps(9), "done"]), sizes=sizes(job_quota_bytes=5000))
    end = driver.go(lambda _: Extend(amount=100_000, by="anna"))
    assert isinstance(end, Finished)
    assert len(driver.pauses) == 1


def test_or_the_job_stops(bench: Bench) -> None:
    agent = bench.agent(on_limit="stop")
    driver = Driver(agent, Script([*steps(9), "done"]), sizes=sizes(job_quota_bytes=5000))
    end = driver.go()
    assert isinstance(end, Failed)
    assert end.reason == "max_stored_bytes"
    assert "of 5000 bytes of stored messages" in end.text


def test_without_a_quota_there_is_none(bench: Bench) -> None:
    driver = Driver(bench.agent(), Script([*steps(9), "done"]), sizes=sizes(job_quota_bytes=0))
    assert isinstance(driver.go(), Finished)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(say("x" * 3000), id="text"),
        pytest.param(act("", ("put", {"x": 1, "y": "x" * 3000})), id="call"),
        pytest.param({**say("x"), "reasoning": {"parts": ["x" * 3000]}}, id="other field"),
    ],
)
def test_a_reply_that_is_too_large_is_kept_out(bench: Bench, reply: dict[str, Any]) -> None:
    driver = Driver(bench.agent(), Script([reply]), sizes=sizes(max_reply_bytes=2000))
    end = driver.go()
    assert isinstance(end, Paused)
    assert end.pause.kind is PauseKind.MODEL_ERROR
    assert "reply: 3," in end.pause.question
    assert "at most 2,000 are allowed (STEPKEEPER_MAX_REPLY_BYTES)" in end.pause.question
    assert end.pause.details["code"] == "reply_too_large"
    assert [message["role"] for message in driver.messages] == ["system", "user"]
    assert driver.state().usage.total > 0  # it was paid for
    driver.script = Script(["short"])
    driver.signal = Retry(by="anna")
    assert isinstance(driver.go(), Finished)


def test_an_answer_that_is_too_large_fails_the_job(bench: Bench) -> None:
    driver = Driver(bench.agent(), Script([say("ä" * 600)]), sizes=sizes(max_answer_bytes=1000))
    end = driver.go()
    assert isinstance(end, Failed)
    assert end.reason == "answer_too_large"
    assert "answer: 1,203 bytes as JSON, at most 1,000 are allowed" in end.text
    assert "STEPKEEPER_MAX_ANSWER_BYTES" in end.text


@tool(effects="safe")
def dig() -> list[Any]:
    """Give something deep."""
    value: list[Any] = []
    for _ in range(120):
        value = [value]
    return value


def test_so_does_one_that_is_nested_too_deeply() -> None:
    agent = Agent(name="a", goal="g", tools=[dig], terminal=["dig"])
    end = Driver(agent, Script([act("", ("dig", {}))])).go()
    assert isinstance(end, Failed)
    assert end.text == "answer: nested more than 100 levels deep (STEPKEEPER_MAX_DEPTH)"
