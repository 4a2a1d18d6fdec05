"""Streams of three formats, put together to the body that would have come in one piece."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.devserver import chat as chat_wire
from worker.devserver import messages as messages_wire
from worker.devserver import responses as responses_wire
from worker.models.base import Delta, Message, ModelReply, Usage
from worker.models.chat_stream import ChatCollector
from worker.models.completion import read_completion
from worker.models.messages_body import read_message
from worker.models.messages_stream import MessagesCollector
from worker.models.responses_body import read_response
from worker.models.responses_stream import ResponsesCollector
from worker.models.streaming import Collector, read_data, sent_events, show

Format = tuple[ModuleType, type[Any], Callable[[bytes], ModelReply]]
FORMATS: dict[str, Format] = {
    "chat": (chat_wire, ChatCollector, read_completion),
    "responses": (responses_wire, ResponsesCollector, read_response),
    "messages": (messages_wire, MessagesCollector, read_message),
}
ASKED = {"model": "m", "stream_options": {"include_usage": True}}


def gathered(collector: Collector, events: Iterable[dict[str, Any]]) -> list[Delta]:
    return [delta for event in events for delta in collector.take(event.get("type", ""), event)]


def reply_of(collector: Collector, read: Callable[[bytes], ModelReply]) -> ModelReply:
    return read(json.dumps(collector.body()).encode())


def joined(deltas: Iterable[Delta]) -> dict[str, Any]:
    """What a reader has seen in the end."""
    seen: dict[str, Any] = {"text": "", "calls": {}}
    for delta in deltas:
        if delta.kind == "call":
            name, arguments = seen["calls"].get(delta.index, ("", ""))
            seen["calls"][delta.index] = (name + delta.name, arguments + delta.text)
        elif delta.kind == "text":
            seen["text"] += delta.text
    return seen


CALLS = st.lists(
    st.tuples(st.sampled_from(["add", "list_docs"]), st.dictionaries(st.text(), st.text())),
    max_size=3,
)


def message(text: str, calls: list[tuple[str, dict[str, str]]], thinking: str) -> Message:
    made: Message = {"role": "assistant", "content": text or None}
    if thinking:
        made |= {"thinking": thinking, "reasoning": thinking}
    if calls:
        made["tool_calls"] = [
            {
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(values, ensure_ascii=False)},
            }
            for n, (name, values) in enumerate(calls)
        ]
    return made


@pytest.mark.parametrize("form", FORMATS)
@given(text=st.text(), calls=CALLS, thinking=st.text())
def test_a_stream_gives_the_very_reply_that_one_piece_gives(
    form: str, text: str, calls: list[tuple[str, dict[str, str]]], thinking: str
) -> None:
    if not text and not calls:
        text = "."
    wire, collector_class, read = FORMATS[form]
    reply = ModelReply(message(text, calls, thinking), Usage(9, 7, 3))
    whole = read(json.dumps(wire.write_reply(reply, ASKED, 1)).encode())
    raw = "".join(wire.write_events(reply, ASKED, 1)).encode()
    events = [read_data(e) for e in sent_events([raw]) if e.data != "[DONE]"]
    collector = collector_class()
    deltas = gathered(collector, events)
    assert collector.complete
    assert reply_of(collector, read) == whole
    shown: list[Delta] = []
    show(whole.message, shown.append)
    assert joined(deltas) == joined(shown)


@pytest.mark.parametrize("form", FORMATS)
def test_until_the_reason_has_come_nothing_is_complete(form: str) -> None:
    wire, collector_class, _ = FORMATS[form]
    raw = "".join(wire.write_events(ModelReply({"content": "Hello there."}), ASKED, 1)).encode()
    events = [read_data(e) for e in sent_events([raw]) if e.data != "[DONE]"]
    complete = []
    collector = collector_class()
    for event in events:
        gathered(collector, [event])
        complete.append(collector.complete)
    assert complete[0] is False
    assert complete[-1] is True
    assert complete == sorted(complete)


def chunk(delta: dict[str, Any], reason: str | None = None, **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason, **choice}]}


def call(index: int | None, call_id: str | None, name: str | None, arguments: str | None) -> Any:
    entry: dict[str, Any] = {"function": {"name": name, "arguments": arguments}, "id": call_id}
    return {"tool_calls": [entry if index is None else {"index": index, **entry}]}


def from_chunks(*chunks: dict[str, Any]) -> ModelReply:
    collector = ChatCollector()
    gathered(collector, chunks)
    return reply_of(collector, read_completion)


def arguments_of(reply: ModelReply) -> list[tuple[str, str]]:
    functions = [entry["function"] for entry in reply.message["tool_calls"]]
    return [(function["name"], function["arguments"]) for function in functions]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [call(0, "a", "f", '{"x"'), call(0, None, None, ": 1}"), call(1, "b", "g", "{}")],
            id="as OpenAI sends them",
        ),
        pytest.param(
            [call(0, "a", "f", '{"x": 1}'), call(0, "b", "g", "{}")], id="every index is 0"
        ),
        pytest.param(
            [call(None, "a", "f", '{"x"'), call(None, None, None, ": 1}"),
             call(None, "b", "g", "{}")],
            id="no index",
        ),
        pytest.param(
            [call(0, "a", "f", '{"x"'), call(0, "a", "f", ": 1}"), call(1, "b", "g", "{}")],
            id="id and name in every piece",
        ),
        pytest.param(
            [call(0, "a", "f", None), call(1, "b", "g", "{"), call(0, "", "", '{"x": 1}'),
             call(1, "", "", "}")],
            id="calls mixed",
        ),
    ],
)  # fmt: skip
def test_the_ways_in_which_servers_number_calls(pieces: list[dict[str, Any]]) -> None:
    reply = from_chunks(*map(chunk, pieces), chunk({}, "tool_calls"))
    assert arguments_of(reply) == [("f", '{"x": 1}'), ("g", "{}")]
    assert [entry["id"] for entry in reply.message["tool_calls"]] == ["a", "b"]
    assert reply.message["content"] is None


def test_reasoning_fields_are_put_together_and_kept() -> None:
    reply = from_chunks(
        chunk({"role": "assistant", "content": "", "reasoning_content": "Let me "}),
        chunk({"reasoning_content": "see.", "reasoning_details": [{"index": 0, "text": "a"}]}),
        chunk({"content": "Yes.", "reasoning_details": [{"index": 0, "text": "b"}]}, "stop"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}, "model": "m-7"},
    )
    assert reply == ModelReply(
        {
            "role": "assistant",
            "content": "Yes.",
            "reasoning_content": "Let me see.",
            "reasoning_details": [{"index": 0, "text": "ab"}],
        },
        Usage(3, 2),
        "stop",
        "m-7",
    )


def test_a_refusal_is_one() -> None:
    collector = ChatCollector()
    pieces = [chunk({"refusal": "I cannot "}), chunk({"refusal": "help."}, "stop")]
    assert [d.kind for d in gathered(collector, pieces)] == ["refusal", "refusal"]
    reply = reply_of(collector, read_completion)
    assert reply.message == {"role": "assistant", "content": None, "refusal": "I cannot help."}


def test_other_choices_and_whole_messages_beside_the_pieces_are_left_out() -> None:
    whole = {"message": {"role": "assistant", "content": "Yes."}}
    reply = from_chunks(
        chunk({"content": "Yes."}),
        chunk({"content": "No."}, index=1),
        chunk({}, "stop", **whole),
    )
    assert reply.message["content"] == "Yes."


def test_a_server_that_sends_everything_at_once() -> None:
    whole = {"message": {"role": "assistant", "content": "Yes."}}
    assert from_chunks(chunk({}, "stop", **whole)).message["content"] == "Yes."


def test_half_a_surrogate_pair_at_a_cut_finds_its_other_half() -> None:
    raw = json.dumps("🎉")[1:-1]
    first, second = (json.loads(f'"{half}"') for half in (raw[:6], raw[6:]))
    reply = from_chunks(chunk({"content": first}), chunk({"content": second}, "stop"))
    assert reply.message["content"] == "🎉"


def test_arguments_that_were_cut_are_missing_whichever_way_they_came() -> None:
    collector = MessagesCollector()
    start = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    gathered(
        collector,
        [
            {"type": "message_start", "message": {"model": "m"}},
            {"type": "content_block_start", "index": 0, "content_block": start},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": '{"a": '},
            },
            {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        ],
    )
    reply = reply_of(collector, read_message)
    assert (reply.finish_reason, arguments_of(reply)) == ("length", [("f", "")])


def test_items_that_only_come_one_by_one_are_the_output() -> None:
    collector = ResponsesCollector()
    said = {"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}
    gathered(
        collector,
        [
            {"type": "response.output_item.done", "output_index": 0, "item": said},
            {"type": "response.completed", "response": {"status": "completed", "output": []}},
        ],
    )
    assert reply_of(collector, read_response).message["content"] == "Yes."
