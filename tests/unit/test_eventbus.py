"""The way to the event bus: in order, in few messages, never at the cost of a job."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from worker import eventbus
from worker.eventbus import MOST_WAITING, EventBus
from worker.telemetry.events import Event, state_shown


class Broker:
    """Stands for an app with its connection and dispatcher, and for the broker behind them."""

    def __init__(self) -> None:
        self.messages: list[list[str]] = []
        self.connections = 0
        self.away = 0
        self.passed = threading.Semaphore(0)
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()
        self.events = self
        self._waiting: list[str] = []

    def connection_for_write(self, heartbeat: float) -> Broker:
        """The app's."""
        assert heartbeat == 0
        self.connections += 1
        return self

    def channel(self) -> Broker:
        """The connection's."""
        if self.away:
            self.away -= 1
            self.passed.release()
            raise OSError("the broker is away")
        return self

    def release(self) -> None:
        """The connection's."""

    def Dispatcher(self, *_: Any, **__: Any) -> Broker:  # noqa: N802
        """The app's."""
        self._waiting = []
        return self

    def send(self, kind: str, **fields: Any) -> None:
        """The dispatcher's."""
        assert fields["timestamp"] > 1e9
        self._waiting.append(f"{kind} {fields['uuid']}")

    def flush(self, errors: bool) -> None:
        """The dispatcher's: one message."""
        assert not errors
        self.entered.set()
        assert self.open.wait(10)
        self.messages.append(self._waiting)
        self._waiting = []
        self.passed.release()

    def wait(self, times: int = 1) -> None:
        """Wait until so many messages have come, or failed to."""
        for _ in range(times):
            assert self.passed.acquire(timeout=10)


def event(kind: str, job_id: str = "j") -> Event:
    """An event of a job."""
    return f"task-{kind}", {"uuid": job_id}


@pytest.fixture
def broker() -> Broker:
    """A broker that is there."""
    return Broker()


@pytest.fixture
def bus(broker: Broker) -> EventBus:
    """A bus of events that are wanted."""
    return EventBus(broker, "w@test", lambda: True)  # type: ignore[arg-type]


def test_what_comes_while_one_message_is_on_its_way_goes_together_in_the_next(
    bus: EventBus, broker: Broker
) -> None:
    broker.open.clear()
    bus.send(event("step"), state_shown("j", "STARTED"))
    assert broker.entered.wait(10)
    bus.send(event("paused"))
    bus.send(event("resumed"), state_shown("j", "STARTED"))
    broker.open.set()
    broker.wait(2)
    assert broker.messages == [
        ["task-step j", "task-STARTED j"],
        ["task-paused j", "task-resumed j", "task-STARTED j"],
    ]
    assert broker.connections == 1


def test_nothing_is_done_for_events_that_nobody_wants(broker: Broker) -> None:
    bus = EventBus(broker, "w@test", lambda: False)  # type: ignore[arg-type]
    before = threading.active_count()
    bus.send(event("step"))
    assert (threading.active_count(), broker.connections) == (before, 0)


def test_a_broken_connection_is_replaced(bus: EventBus, broker: Broker) -> None:
    broker.away = 1
    bus.send(event("paused"))
    broker.wait(2)
    assert (broker.messages, broker.connections) == ([["task-paused j"]], 2)


def test_without_a_broker_events_are_dropped_and_said_to_be(
    bus: EventBus, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.away = 2
    with caplog.at_level(logging.WARNING):
        bus.send(event("paused"))
        broker.wait(2)
        bus.send(event("resumed"))
        broker.wait()
    assert broker.messages == [["task-resumed j"]]
    assert "could not be sent, and are dropped" in caplog.text


def test_the_oldest_are_dropped_when_too_many_wait(bus: EventBus, broker: Broker) -> None:
    broker.open.clear()
    bus.send(event("step", "first"))
    assert broker.entered.wait(10)
    for number in range(MOST_WAITING + 5):
        bus.send(event("step", str(number)))
    broker.open.set()
    broker.wait(1 + MOST_WAITING // eventbus.MOST_AT_ONCE)
    sent = [one for message in broker.messages for one in message]
    assert (sent[0], sent[1], len(sent)) == ("task-step first", "task-step 5", MOST_WAITING + 1)


def test_no_event_of_a_running_job_comes_behind_its_end(bus: EventBus, broker: Broker) -> None:
    broker.open.clear()
    bus.send(event("paused", "other"))
    assert broker.entered.wait(10)
    bus.send(event("step"), state_shown("j", "STARTED"))
    bus.send(event("step", "other"), state_shown("other", "STARTED"))
    bus.send(event("step"))
    bus.over("j", "SUCCESS")
    broker.open.set()
    broker.wait(2)
    assert broker.messages[1] == [
        *("task-step j", "task-SUCCESS j"),
        *("task-step other", "task-STARTED other", "task-step j"),
    ]


def test_an_end_waits_for_what_is_being_sent_of_the_job_and_not_for_long(
    bus: EventBus, broker: Broker
) -> None:
    broker.open.clear()
    bus.send(event("step"), state_shown("j", "STARTED"))
    assert broker.entered.wait(10)
    waiting = threading.Thread(target=bus.over, args=["j", "SUCCESS"])
    waiting.start()
    waiting.join(10)  # gives up by itself
    assert not waiting.is_alive()
    assert broker.messages == []
    broker.open.set()
    bus.over("j", "SUCCESS")
    assert broker.messages == [["task-step j", "task-STARTED j"]]


def test_celerys_own_events_go_before_a_retry_and_hold_up_nothing_else(broker: Broker) -> None:
    """Behind a retry monitors believe also the start of the same slice."""
    asked: list[int] = []
    bus = EventBus(
        broker,  # type: ignore[arg-type]
        "w@test",
        lambda: True,
        celerys_first=lambda: asked.append(len(broker.messages)),
    )
    kinds = ("step", "retried", "RETRY", "paused")
    for kind in kinds:
        bus.send(event(kind))
        broker.wait()
    assert broker.messages == [[f"task-{kind} j"] for kind in kinds]
    assert asked == [1, 2]


def test_what_shows_a_running_job_is_not_sent_too_late(
    bus: EventBus, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eventbus, "LATE_S", -1.0)
    bus.send(event("step"), state_shown("j", "STARTED"))
    bus.send(event("paused"))
    broker.wait()
    if ["task-paused j"] not in broker.messages:
        broker.wait()
    assert [one for message in broker.messages for one in message] == ["task-paused j"]


def test_a_message_shows_a_running_job_once_behind_its_last_event(
    bus: EventBus, broker: Broker
) -> None:
    broker.open.clear()
    bus.send(event("first"))
    assert broker.entered.wait(10)
    for job_id in ("a", "b", "a"):
        bus.send(event("step", job_id), state_shown(job_id, "STARTED"))
    broker.open.set()
    broker.wait(2)
    shown = ["task-step a", "task-step b", "task-STARTED b", "task-step a", "task-STARTED a"]
    assert broker.messages[1] == shown


def test_the_last_events_are_sent_at_the_end(bus: EventBus, broker: Broker) -> None:
    for _ in range(3):
        bus.send(event("paused"))
    bus.close()
    assert sum(map(len, broker.messages)) == 3
    bus.send(event("paused"))
    assert sum(map(len, broker.messages)) == 3
