"""The trace as JSON lines, and following it."""

from __future__ import annotations

import itertools
import json
import threading

import pytest

from api_client.contract import Answer, Event, JobSpec, JobStatus, JobView
from api_client.errors import JobNotFound
from tests.support.recorded import record
from worker.models.scripted import act, say
from worker.rendering import follow, rests, trace_records, written
from worker.store.memory import MemoryStore


def test_each_record_carries_the_message_that_it_names() -> None:
    source = record([act("Look.", ("status", {"order": "7"})), say("There.")])
    records = list(trace_records(source, "job-1", written(source, "job-1")))
    kinds = [item["kind"] for item in records]
    assert kinds == ["submitted", "claimed", "reply", "observation", "finished"]
    assert records[0]["input"] == "Where is 1187?"
    assert records[2]["message"]["content"] == "Look."
    assert records[3]["message"] == source.run.messages[3]
    assert records[4]["outcome"]["value"] == "There."
    assert [item["at"] for item in records] == [event.at for event in source.run.events]
    assert json.loads(json.dumps(records)) == records


def test_answers_that_no_record_names_come_with_the_end() -> None:
    calls = (("ship", {"order": "7"}), ("status", {"order": "7"}))
    source = record([act("Both.", *calls)], terminal=["ship"])
    *_, last = trace_records(source, "job-1", written(source, "job-1"))
    assert [message["tool_call_id"] for message in last["messages"]] == ["call_1_1", "call_1_2"]
    assert "message" not in last


def stored(job_id: str = "j") -> MemoryStore:
    store = MemoryStore()
    store.create(JobSpec(job_id=job_id, agent="clerk", input="x"))
    return store


def test_following_sees_records_that_come_later_and_ends_with_the_job() -> None:
    store = stored()
    events = follow(store, "j")
    assert next(events).kind == "submitted"
    later = threading.Timer(0.05, lambda: store.cancel("j", by="anna"))
    later.start()
    assert [event.kind for event in events] == ["cancel", "cancelled"]
    later.join()


def test_following_ends_when_its_time_is_over() -> None:
    times = itertools.count(0.0, 0.6)
    events = follow(_Silent(stored()), "j", timeout_s=2.0, clock=lambda: next(times))
    assert [event.kind for event in events] == ["submitted"]


class _Silent:
    """A store whose waits for news return at once."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.messages = store.messages

    def read(self, job_id: str) -> JobView:
        return self._store.read(job_id)

    def events(
        self, job_id: str, after: str = "0", count: int = 1000, block_s: float = 0.0
    ) -> list[Event]:
        assert block_s <= 1.0
        return self._store.events(job_id, after, count)


def test_what_is_written_is_all_there_is_of_a_job_that_goes_on() -> None:
    assert [event.kind for event in written(stored(), "j")] == ["submitted"]


def test_more_records_than_one_read_gives_are_all_told() -> None:
    source = record([*(act("a", ("status", {"order": str(n)})) for n in range(9)), say("x")])

    class Slow(type(source)):  # type: ignore[misc]
        def events(self, job_id: str, after: str = "0", **_: object) -> list[Event]:
            return list(super().events(job_id, after, count=3))

    assert list(written(Slow(source.run), "job-1")) == source.run.events


def test_a_job_rests_when_it_waits_for_a_person_or_has_ended() -> None:
    paused = record([act("", ("hand_to_human", {"reason": "?"}))]).run.view
    ended = record([say("x")]).run.view
    running = ended.model_copy(update={"status": JobStatus.RUNNING})
    assert [rests(view) for view in (paused, ended, running)] == [True, True, False]


def test_following_until_a_pause_passes_one_that_was_answered() -> None:
    script = [act("", ("hand_to_human", {"reason": "?"})), say("Done.")]
    source = record(script, answers=lambda _: Answer(value="yes"))
    kinds = [event.kind for event in follow(source, "job-1", until=rests)]
    assert kinds[-1] == "finished"
    assert "paused" in kinds


def test_an_unknown_job_is_an_error() -> None:
    with pytest.raises(JobNotFound):
        list(written(MemoryStore(), "nobody"))
