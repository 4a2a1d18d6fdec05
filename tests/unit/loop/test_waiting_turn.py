"""A model call that must wait its turn at a shared limit: no failure, and nothing is lost."""

from __future__ import annotations

from typing import Any

from tests.unit.loop.bench import Bench
from tests.unit.loop.driver import Driver, Script, drive
from worker.effects import Backoff, Finished
from worker.memory import Summarised
from worker.models import ModelError
from worker.models.function import FunctionModel
from worker.models.scripted import act, say


def wait(seconds: float = 7.5) -> ModelError:
    return ModelError("model m: its shared limit is used", "wait", seconds, code="limit")


def test_the_job_waits_exactly_as_long_as_it_is_told(bench: Bench) -> None:
    driver, end = drive(bench.agent(), [wait(), "done"])
    assert isinstance(end, Finished)
    [backoff] = driver.waits
    assert (backoff.seconds, backoff.attempt) == (7.5, 0)
    assert backoff.text == "model m: its shared limit is used"


def test_waits_are_no_failures_however_many(bench: Bench) -> None:
    script = [act("", ("ping", {})), *[wait()] * 20, "done"]
    driver, end = drive(bench.agent(max_model_attempts=2), script)
    assert isinstance(end, Finished)
    assert len(driver.waits) == 20
    assert driver.state().failures == 0


def test_a_wait_between_failures_does_not_begin_their_count_anew(bench: Bench) -> None:
    busy = ModelError("busy", "retry", status=503)
    driver, _ = drive(bench.agent(max_model_attempts=3), [busy, wait(), busy, "done"])
    assert [backoff.attempt for backoff in driver.waits] == [1, 0, 2]


def test_a_summary_that_must_wait_is_written_later(bench: Bench) -> None:
    asked = 0

    def summarise(_: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise wait(3.0)
        return say("what was before")

    memory = Summarised(60, model=FunctionModel(summarise))
    steps = [act("word " * 10, ("look", {"x": n})) for n in range(4)]
    driver = Driver(bench.agent(memory=memory), Script([*steps, "done"]))
    assert isinstance(driver.go(), Finished)
    assert [backoff.seconds for backoff in driver.waits] == [3.0]
    assert any("what was before" in str(message["content"]) for message in driver.messages)
    assert isinstance(driver.waits[0], Backoff)
