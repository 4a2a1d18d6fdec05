"""The scripted model: the right line for every history, and objections to surprises."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from worker.models import Model, ModelError, ModelReply, ModelRequest, ScriptedModel, Usage
from worker.models.scripted import act, say


def asked(lines: int = 0, task: str = "hello") -> ModelRequest:
    """A request whose history holds that many assistant messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for _ in range(lines):
        messages += [act("", ("f", {}, "c")), {"role": "tool", "tool_call_id": "c", "content": ""}]
    return ModelRequest(messages)


def test_it_is_a_model() -> None:
    assert isinstance(ScriptedModel([]), Model)


def test_the_history_chooses_the_line_whatever_was_asked_before() -> None:
    script = [act("First.", ("f", {"a": "ä"})), "Second."]
    assert ScriptedModel(script).reply(asked(1)).message == say("Second.")
    reply = ScriptedModel(script).reply(asked(0))
    assert reply.message == {
        "role": "assistant",
        "content": "First.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "f", "arguments": '{"a": "ä"}'},
            }
        ],
    }
    assert (reply.finish_reason, reply.model) == ("tool_calls", "scripted")


def test_call_ids_come_from_the_line_unless_they_are_given() -> None:
    model = ScriptedModel(["x", act(None, ("f",), ("g", None, "mine"), ("h", "{oops"))])
    calls = model.reply(asked(1)).message["tool_calls"]
    assert [c["id"] for c in calls] == ["call_2_1", "mine", "call_2_3"]
    assert [c["function"]["arguments"] for c in calls] == ["{}", "{}", "{oops"]


def test_an_id_that_is_none_on_purpose_stays_so() -> None:
    line = act("", ("f",))
    line["tool_calls"][0]["id"] = None
    assert ScriptedModel([line]).reply(asked()).message["tool_calls"][0]["id"] is None


def test_a_reply_does_not_hand_out_the_script_itself() -> None:
    model = ScriptedModel(["x", act("", ("f",))])
    model.reply(asked(1)).message["content"] = "changed"
    assert model.reply(asked(1)).message["content"] is None


def test_past_the_end_is_an_error_that_names_the_place() -> None:
    with pytest.raises(ModelError) as caught:
        ScriptedModel(["a", "b"], name="shop").reply(asked(2))
    assert caught.value.fate == "fail"
    assert "shop: asked for line 3 of a script of 2" in caught.value.text


def test_unused_lines_are_named() -> None:
    model = ScriptedModel(["a", ModelError("busy"), act("", ("f",))])
    model.reply(asked(0))
    assert len(model.unused()) == 2
    with pytest.raises(AssertionError, match=r"line 2: ModelError.*line 2: .*tool_calls"):
        model.assert_finished()
    with pytest.raises(ModelError, match="busy"):
        model.reply(asked(1))
    model.reply(asked(1))
    model.assert_finished()


def test_errors_come_once_each_before_their_line() -> None:
    model = ScriptedModel([ModelError("one"), ModelError("two"), "done"])
    for text in ("one", "two"):
        with pytest.raises(ModelError, match=text):
            model.reply(asked())
    assert model.reply(asked()).message["content"] == "done"
    assert model.reply(asked()).message["content"] == "done"


def test_errors_at_the_end_come_and_then_the_script_is_over() -> None:
    model = ScriptedModel(["a", ModelError("busy")])
    with pytest.raises(ModelError, match="busy"):
        model.reply(asked(1))
    with pytest.raises(ModelError, match="line 2 of a script of 1"):
        model.reply(asked(1))
    assert model.unused() == ["line 1: 'a'"]


def test_a_line_may_be_a_function_of_the_request() -> None:
    model = ScriptedModel([lambda request: request.messages[-1]["content"] + "!"])
    assert model.reply(asked()).message["content"] == "hello!"


def test_usage_is_the_models_own_unless_the_line_brings_it() -> None:
    model = ScriptedModel(["a", ModelReply(say("b"), Usage(7, 7))], usage=Usage(1, 2))
    assert model.reply(asked(0)).usage == Usage(1, 2)
    assert model.reply(asked(1)).usage == Usage(7, 7)
    assert ScriptedModel(["a"]).reply(asked()).usage is None


def test_the_task_chooses_the_script() -> None:
    model = ScriptedModel.by_task({"1187": ["return"], "Kurier": ["wait"]})
    assert model.reply(asked(0, "Wann? Der Kurier sagt heute")).message["content"] == "wait"
    parts = [{"type": "text", "text": "Bestellung 1187"}]
    request = ModelRequest([{"role": "system", "content": "Kurier"}, {"role": "user"}])
    request.messages[1]["content"] = parts
    assert model.reply(request).message["content"] == "return"
    with pytest.raises(ModelError, match=r"no script for the task 'x'.*'1187', 'Kurier'"):
        model.reply(asked(0, "x"))
    assert model.unused() == []


def test_unused_lines_of_several_scripts_name_their_task() -> None:
    model = ScriptedModel.by_task({"1187": ["return"], "Kurier": ["wait"]})
    assert model.unused() == ["line 1 of '1187': 'return'", "line 1 of 'Kurier': 'wait'"]


def test_the_async_way_is_the_same() -> None:
    reply = asyncio.run(ScriptedModel(["a"]).areply(asked()))
    assert reply.message == say("a")


def test_many_threads_may_ask_at_once_and_each_error_comes_once() -> None:
    model = ScriptedModel([ModelError("e"), ModelError("e"), ModelError("e"), "done"])

    def ask(_: int) -> bool:
        try:
            model.reply(asked())
        except ModelError:
            return True
        return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(40))) == 3


def test_a_line_of_no_known_form_is_refused() -> None:
    with pytest.raises(ModelError, match="not int"):
        ScriptedModel([lambda _: 7]).reply(asked())
