"""A job whose replies are shown while they come: the same job, and something to watch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api_client.live import LiveRecord
from worker.agent import Agent
from worker.inline import run_inline
from worker.memory import Summarised
from worker.models import FunctionModel, ModelError, ModelReply, ModelRequest, ScriptedModel, act
from worker.models.base import Delta, OnDelta
from worker.store.memory import MemoryStore
from worker.tools import tool


@tool(effects="safe")
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


SCRIPT = [act("First the sum.", ("add", {"a": 2, "b": 3})), "It is 5."]
agent = Agent(name="sums", goal="Add.", tools=[add], stream=True)


class Spelling:
    """A model that says its lines letter by letter."""

    name = "spelling"

    def __init__(self, script: list[Any]) -> None:
        self._model = ScriptedModel(script)
        self.streamed = 0

    def reply(self, request: ModelRequest) -> ModelReply:
        return self._model.reply(request)

    def stream(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        self.streamed += 1
        reply = self.reply(request)
        for letter in reply.message["content"]:
            on_delta(Delta("text", letter))
        return reply


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Everything that goes to a live stream."""
    found: list[dict[str, Any]] = []
    emit = MemoryStore.emit

    def spy(self: MemoryStore, job_id: str, epoch: int, records: Any) -> Any:
        found.extend(records)
        return emit(self, job_id, epoch, records)

    monkeypatch.setattr(MemoryStore, "emit", spy)
    return found


def shown(records: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
    """What a reader has of each reply in the end: neighbours of one kind put together."""
    found: list[tuple[int, str, str]] = []
    for record in records:
        key = (record["step"], record["kind"])
        if found and found[-1][:2] == key and key[1] != "begin":
            found[-1] = (*key, found[-1][2] + record["text"])
        else:
            found.append((*key, record["text"]))
    return found


def test_streaming_changes_nothing_but_what_can_be_watched(emitted: list[dict[str, Any]]) -> None:
    streamed = run_inline(agent, "2 and 3?", model=Spelling(SCRIPT))
    plain = run_inline(replace(agent, stream=False), "2 and 3?", model=Spelling(SCRIPT))
    assert streamed.messages == plain.messages
    assert [e.kind for e in streamed.events] == [e.kind for e in plain.events]
    assert shown(emitted) == [
        (1, "begin", ""),
        (1, "text", "First the sum."),
        (2, "begin", ""),
        (2, "text", "It is 5."),
    ]


def test_a_model_that_cannot_stream_is_shown_in_one_piece(emitted: list[dict[str, Any]]) -> None:
    run_inline(agent, "2 and 3?", model=SCRIPT)
    assert shown(emitted)[1:3] == [(1, "text", "First the sum."), (1, "call", '{"a": 2, "b": 3}')]
    assert [r.get("tool") for r in emitted if r["kind"] == "call"] == ["add"]


def test_without_the_setting_nothing_is_written(emitted: list[dict[str, Any]]) -> None:
    model = Spelling(SCRIPT)
    run_inline(replace(agent, stream=False), "2 and 3?", model=model)
    assert (emitted, model.streamed) == ([], 0)


def test_a_reply_that_broke_off_begins_again_and_is_no_answer(
    emitted: list[dict[str, Any]],
) -> None:
    class Breaking(Spelling):
        def stream(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
            if self.streamed:
                return super().stream(request, on_delta)
            self.streamed += 1
            on_delta(Delta("text", "It is fo"))
            raise ModelError("the stream ended before the reply did", "retry", code="stream_cut")

    run = run_inline(agent, "2 and 3?", model=Breaking(["It is 5."]))
    assert run.answer == "It is 5."
    assert shown(emitted) == [
        (1, "begin", ""),
        (1, "text", "It is fo"),
        (1, "begin", ""),
        (1, "text", "It is 5."),
    ]
    assert "retry" in [e.kind for e in run.events]


def test_a_summary_is_nothing_to_watch(emitted: list[dict[str, Any]]) -> None:
    memory = Summarised(tokens=60, model=FunctionModel(lambda _: "a summary"))
    script = [act(f"{n} " * 30, ("add", {"a": n, "b": 1})) for n in range(4)]
    run = run_inline(replace(agent, memory=memory), "go on", model=[*script, "done"])
    assert "summary" in [e.kind for e in run.events]
    assert "a summary" not in [text for _, _, text in shown(emitted)]


def test_a_record_reads_back_as_it_was_written() -> None:
    record = LiveRecord(id="7-0", step=1, kind="call", text="{", call=0, tool="add")
    assert LiveRecord.model_validate_json(record.model_dump_json()) == record
