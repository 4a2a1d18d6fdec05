"""Odd replies of real models: what is stored of them, and what is run. Rows A1 to A18."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.devserver.strict import Strict
from worker.replies import Call, Turn, read_reply, resolve_name

TOOLS = ("ping", "get_weather", "add", "search")


def call(name: Any = "ping", arguments: Any = "{}", call_id: Any = "c1") -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def read(
    *calls: dict[str, Any],
    content: Any = None,
    reason: str | None = "tool_calls",
    history: list[dict[str, Any]] | None = None,
    **fields: Any,
) -> Turn:
    message = {"role": "assistant", "content": content, "tool_calls": list(calls), **fields}
    return read_reply(message, history=history or [], tool_names=TOOLS, finish_reason=reason)


def stored_arguments(turn: Turn) -> list[str]:
    return [c["function"]["arguments"] for c in turn.message["tool_calls"]]


def test_an_ordinary_call_is_kept_as_it_is() -> None:
    turn = read(call("add", '{"a": 1}'), content="First I add.")
    assert turn.calls == (Call("c1", "add", "add", '{"a": 1}'),)
    assert turn.text == "First I add."
    assert turn.message == {
        "role": "assistant",
        "content": "First I add.",
        "tool_calls": [call("add", '{"a": 1}')],
    }
    assert turn.raw == {}


def test_an_ordinary_answer_is_kept_as_it_is() -> None:
    message = {"role": "assistant", "content": "420"}
    turn = read_reply(message, history=[], tool_names=TOOLS, finish_reason="stop")
    assert turn == Turn(message=message, text="420")


@pytest.mark.parametrize("arguments", ["", "  ", None, "\n"])
def test_a1_empty_arguments_are_an_empty_object(arguments: Any) -> None:
    turn = read(call(arguments=arguments))
    assert turn.calls == (Call("c1", "ping", "ping", "{}"),)
    assert stored_arguments(turn) == ["{}"]


def test_a1_missing_arguments_are_an_empty_object() -> None:
    turn = read({"id": "c1", "type": "function", "function": {"name": "ping"}})
    assert turn.calls[0].arguments == "{}"
    assert turn.calls[0].problem is None
    assert stored_arguments(turn) == ["{}"]


def test_arguments_sent_as_an_object_are_written_as_text() -> None:
    turn = read(call("add", {"a": "Å"}))
    assert turn.calls[0].arguments == '{"a": "Å"}'
    assert stored_arguments(turn) == ['{"a": "Å"}']


@pytest.mark.parametrize("arguments", ['["Oslo"]', '"Oslo"', "7", "true", "null"])
def test_a2_arguments_that_are_no_object_are_not_stored(arguments: str) -> None:
    turn = read(call("get_weather", arguments))
    assert turn.calls == (Call("c1", "get_weather", "get_weather", arguments, "malformed"),)
    assert stored_arguments(turn) == ["{}"]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"city": Oslo"}',
        '{"city":"Oslo"}}',
        '{"city":"Oslo"}{"city":"Rome"}',
        "{'city': 'Oslo'}",
        '{"city": "Os\nlo"}',
        '{"city": NaN}',
        "[" * 100_000,
        '{"n": ' + "9" * 5000 + "}",
    ],
)
def test_a3_malformed_arguments_never_go_into_the_history(arguments: str) -> None:
    turn = read(call("get_weather", arguments), call("ping", call_id="c2"))
    assert [c.problem for c in turn.calls] == ["malformed", None]
    assert turn.calls[0].arguments == arguments
    assert stored_arguments(turn) == ["{}", "{}"]
    assert turn.raw["arguments"] == {"c1": arguments[:200]}
    assert turn.raw["problems"] == {"c1": "malformed"}


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS"])
def test_a4_the_call_that_was_cut_never_runs_and_its_complete_sibling_does(reason: str) -> None:
    first = call("add", '{"a": 1}')
    turn = read(first, call("add", '{"a": 1, "b', "c2"), reason=reason)
    assert turn.calls[0] == Call("c1", "add", "add", '{"a": 1}')
    assert turn.calls[1] == Call("c2", "add", "add", '{"a": 1, "b', "truncated")
    assert stored_arguments(turn) == ['{"a": 1}', "{}"]


def test_a4_a_call_cut_before_its_arguments_never_runs() -> None:
    assert read(call("ping", ""), reason="length").calls[0].problem == "truncated"


def test_a4_a_complete_last_call_runs_and_an_earlier_broken_one_was_not_cut() -> None:
    turn = read(call("add", "{oops"), call("ping", "{}", "c2"), reason="length")
    assert [c.problem for c in turn.calls] == ["malformed", None]


def test_a5_an_unknown_tool_is_stored_under_its_id_beside_a_valid_one() -> None:
    turn = read(call("search_webz"), call("get_weather", call_id="c2"))
    assert [c.name for c in turn.calls] == ["search_webz", "get_weather"]
    assert [c["function"]["name"] for c in turn.message["tool_calls"]] == [
        "search_webz",
        "get_weather",
    ]


@pytest.mark.parametrize(
    "raw",
    [
        "get_weather<|channel|>commentary",
        " Get_Weather ",
        "functions.get_weather",
        "get-weather",
        "GET WEATHER",
    ],
)
def test_a6_a_decorated_name_means_the_one_tool_it_can_mean(raw: str) -> None:
    turn = read(call(raw))
    assert turn.calls == (Call("c1", "get_weather", raw, "{}"),)
    assert turn.message["tool_calls"][0]["function"]["name"] == "get_weather"
    assert turn.message["tool_calls"][0]["id"] == "c1"
    assert turn.raw["names"] == {"c1": raw}


@pytest.mark.parametrize("raw", ["", "weather", "get_weather2", "my.get_weather", "函数", None])
def test_a6_any_other_name_stays_unknown_and_is_stored_harmlessly(raw: Any) -> None:
    turn = read(call(raw))
    assert turn.calls[0].name == (raw or "")
    name = turn.message["tool_calls"][0]["function"]["name"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)
    assert resolve_name(name, TOOLS) is None


def test_a6_a_cleaned_name_never_becomes_a_tool_that_the_model_did_not_name() -> None:
    turn = read(call("get.weather"))
    assert turn.calls[0].name == "get.weather"
    assert turn.message["tool_calls"][0]["function"]["name"] == "unknown_get_weather"
    assert turn.raw["names"] == {"c1": "get.weather"}


def test_a6_a_name_that_could_mean_two_tools_means_none() -> None:
    assert resolve_name("Get-It", ("get_it", "get-it")) is None
    assert resolve_name("get-it", ("get_it", "get-it")) == "get-it"


def test_a7_equal_ids_are_made_unique() -> None:
    turn = read(call("add", '{"a": 1}', "call_1"), call("add", '{"a": 3}', "call_1"))
    assert [c.id for c in turn.calls] == ["call_1", "c00000001"]
    assert [c["id"] for c in turn.message["tool_calls"]] == ["call_1", "c00000001"]
    assert turn.raw["ids"] == {"c00000001": "call_1"}


def test_a7_an_id_of_an_earlier_turn_is_made_unique() -> None:
    history = [{"role": "assistant", "content": None, "tool_calls": [call(call_id="call_0")]}]
    turn = read(call(call_id="call_0"), history=history)
    assert turn.calls[0].id == "c00001000"


@pytest.mark.parametrize("missing", [None, "", " ", 7])
def test_a8_a_missing_id_is_made_and_is_the_same_each_time(missing: Any) -> None:
    history = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    first, second = (read(call(call_id=missing), history=history) for _ in range(2))
    assert first.calls[0].id == "c00001000"
    assert first == second


def test_a8_an_absent_id_is_made_and_never_one_that_is_taken() -> None:
    absent = {"type": "function", "function": {"name": "ping", "arguments": "{}"}}
    turn = read(call(call_id="c00000001"), absent)
    assert [c.id for c in turn.calls] == ["c00000001", "c00000002"]


def test_a9_three_equal_calls_are_three_calls_in_order() -> None:
    texts = ['{"q": "x"}', '{"q": "y"}', '{"q": "z"}']
    turn = read(*(call("search", text, f"c{n}") for n, text in enumerate(texts)))
    assert [c.arguments for c in turn.calls] == texts


@pytest.mark.parametrize("reason", ["stop", "content_filter"])
def test_a12_a_refusal_is_read(reason: str) -> None:
    turn = read(refusal="I can't help with that", reason=reason)
    assert turn.refusal == "I can't help with that"
    assert turn.calls == ()
    assert turn.message["content"] == ""


def test_a12_a_refusal_among_content_parts_is_read() -> None:
    parts = [{"type": "refusal", "refusal": "no"}]
    assert read(content=parts, reason="stop").refusal == "no"


def test_a12_a_reply_stopped_by_the_content_filter_is_a_refusal_unless_it_says_something() -> None:
    assert read(reason="content_filter").refusal is not None
    assert read(reason="content_filter", content="Half an ans").refusal is None


def test_a12_calls_count_more_than_a_refusal() -> None:
    assert read(call(), refusal="maybe").refusal is None


def test_a13_unknown_fields_survive_in_the_message_and_in_its_calls() -> None:
    signed = {**call(), "extra_content": {"google": {"thought_signature": "abc"}}}
    turn = read(signed, reasoning_content="because", annotations=None)
    assert turn.message["reasoning_content"] == "because"
    assert turn.message["tool_calls"][0]["extra_content"] == signed["extra_content"]
    assert "annotations" not in turn.message


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name":"get_weather"}</tool_call>',
        'I look.\n<tool_call>{"name":"get_weather"}</tool_call>',
        '<|tool_calls_section_begin|>functions.get_weather:0{"city":"Oslo"}',
        "<｜tool▁calls▁begin｜>get_weather",
        "<function=get_weather>{}</function>",
        '[TOOL_CALLS][{"name": "x", "arguments": {}}]',
        '```json\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n```',
        'I will call:\n```\n{"tool": "add", "args": {"a": 1}}\n```\n',
        '{"name": "add", "parameters": {"a": 1}}',
        '[{"function": {"name": "add", "arguments": "{}"}}]',
    ],
)
def test_a14_a_call_written_as_text_is_told_apart(text: str) -> None:
    turn = read(content=text, reason="stop")
    assert turn.text_call
    assert turn.calls == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer is 420.",
        "Models often write <tool_call> when their template is wrong.",
        '```json\n{"name": "Oslo", "population": 700000}\n```',
        '{"name": "get_weather"}',
        '{"name": "delete_everything", "arguments": {}}',
        "[]",
        "{not json",
        "[" * 100_000,
    ],
)
def test_a14_an_answer_that_only_looks_alike_stays_an_answer(text: str) -> None:
    assert not read(content=text, reason="stop").text_call


def test_a14_text_beside_real_calls_is_a_plan() -> None:
    assert not read(call(), content='<tool_call>{"name":"ping"}</tool_call>').text_call


def test_a15_text_beside_a_call_is_no_answer_but_stays_in_the_history() -> None:
    turn = read(call(), content="Done.")
    assert (turn.text, len(turn.calls)) == ("Done.", 1)
    assert turn.message["content"] == "Done."


@pytest.mark.parametrize("reason", ["end_turn", "tool_use", None])
def test_a18_calls_decide_and_an_unknown_reason_is_noted(reason: str | None) -> None:
    turn = read(call(), reason=reason)
    assert len(turn.calls) == 1
    assert turn.raw == {"finish_reason": reason}


def test_a18_stop_beside_calls_runs_them() -> None:
    turn = read(call(), reason="stop")
    assert len(turn.calls) == 1
    assert turn.raw == {}


@pytest.mark.parametrize("calls", ["x", 7, {}, [None], ["ping"]])
def test_calls_of_no_known_form_are_none(calls: Any) -> None:
    message = {"role": "assistant", "content": "Hm.", "tool_calls": calls}
    turn = read_reply(message, history=[], tool_names=TOOLS, finish_reason="stop")
    assert turn.calls == ()
    assert "tool_calls" not in turn.message


def test_text_is_gathered_from_content_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert read(content=parts, reason="stop").text == "ab"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
odd_calls = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.sampled_from(["c1", "c2", "", None]) | anything,
            "type": anything,
            "function": anything
            | st.fixed_dictionaries(
                {},
                optional={
                    "name": st.sampled_from([*TOOLS, "Get Weather", "get.weather"]) | anything,
                    "arguments": st.sampled_from(["{}", "", '{"a":1}', "{"]) | anything,
                },
            ),
        },
    ),
    max_size=4,
)


@given(calls=odd_calls | anything, content=anything, reason=st.none() | st.text(max_size=6))
def test_whatever_comes_the_history_stays_valid_and_reading_is_repeatable(
    calls: Any, content: Any, reason: str | None
) -> None:
    message = {"role": "assistant", "content": content, "tool_calls": calls}
    before = copy.deepcopy(message)
    turn = read_reply(message, history=[], tool_names=TOOLS, finish_reason=reason)
    assert message == before
    json.dumps(turn.message)
    again = read_reply(turn.message, history=[], tool_names=TOOLS, finish_reason=reason)
    assert again.message == turn.message
    answers = [{"role": "tool", "tool_call_id": c.id, "content": "x"} for c in turn.calls]
    history = [{"role": "user", "content": "x"}, turn.message, *answers]
    Strict().check({"model": "m", "messages": history})
