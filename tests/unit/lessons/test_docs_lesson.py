"""The lesson's agent that looks things up: its scripted run, and its exercises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support.lessons import HTTPX_DOCS, chinese_lines
from worker.examples.counting import count_lines
from worker.examples.docs import docs_agent
from worker.examples.folder import Folder
from worker.inline import InlineRun, run_inline
from worker.models import ScriptedModel, act, say

HTTPX = docs_agent("httpx", Folder(HTTPX_DOCS))
QUESTION = "httpx 的超时分成哪几种？每一种管什么？请注明文件出处。"

SEARCH = act(None, ("grep_docs", '{"keyword": "pool timeout"}', "c1"))
READ = act(None, ("read_doc", '{"path": "advanced/timeouts.md", "start": 1, "end": 200}', "c2"))
MISSPELT = act(None, ("read_doc", '{"path": "advanced/timeout.md"}', "c3"))
ANSWER = "httpx 有四种超时：connect、read、write、pool（见 advanced/timeouts.md 第 43～62 行）。"
SPAN = '{"path": "advanced/timeouts.md", "start": 1, "end": 200}'
BEGINNING = (
    "1: Every wait of this client has an end by default. | 2:  | 3: The default is an exception"
)
MISSING = "错误：没有这个文件 advanced/timeout.md，请先用 list_docs 查看有哪些文件"


def play(script: Sequence[Any], task: str = QUESTION, **changes: Any) -> InlineRun:
    """Run a script to its end, every line of it."""
    model = ScriptedModel(script)
    run = run_inline(replace(HTTPX, **changes), task, model=model)
    model.assert_finished()
    return run


def test_the_model_is_told_what_the_lesson_tells_it() -> None:
    tools = {schema["function"]["name"]: schema["function"] for schema in HTTPX.schemas}
    assert HTTPX.goal == (
        "你是 httpx 的答疑助手，可以使用工具查阅 httpx 的官方文档。\n"
        "先用工具找到依据，再回答；回答要注明依据的文件和行号。找不到依据就如实说明。"
    )
    assert {name: tool["description"] for name, tool in tools.items()} == {
        "list_docs": "列出 httpx 文档的所有文件路径。",
        "grep_docs": "在 httpx 文档里搜索一个英文关键词（不区分大小写），"
        "返回出现的文件和行号，最多 20 条。",
        "read_doc": "读取一个文档文件的指定行，返回带行号的内容。一次最多读 80 行。",
    }
    parameters = tools["read_doc"]["parameters"]
    assert parameters["required"] == ["path"]
    assert {name: p["type"] for name, p in parameters["properties"].items()} == {
        "path": "string",
        "start": "integer",
        "end": "integer",
    }
    assert parameters["properties"]["start"]["description"] == "起始行号，从 1 开始"
    keyword = tools["grep_docs"]["parameters"]["properties"]["keyword"]
    assert keyword["description"] == "要搜索的英文关键词，例如 timeout"


def test_the_scripted_run_of_four_steps() -> None:
    run = play([SEARCH, READ, MISSPELT, say(ANSWER)])

    assert chinese_lines(run) == [
        '[第 1 步] grep_docs({"keyword": "pool timeout"}) → 没有找到 pool timeout',
        f"[第 2 步] read_doc({SPAN}) → {BEGINNING}",
        f'[第 3 步] read_doc({{"path": "advanced/timeout.md"}}) → {MISSING}',
        f"[第 4 步] 回答：{ANSWER}",
    ]
    assert run.answer == ANSWER
    assert run.view.steps == 4
    assert [event.kind for event in run.events] == [
        "submitted",
        "claimed",
        *["reply", "observation"] * 3,
        "finished",
    ]


def test_two_hundred_lines_are_cut_to_eighty_with_their_numbers() -> None:
    read = play([SEARCH, READ, MISSPELT, say(ANSWER)]).observations[1].split("\n")

    text = (HTTPX_DOCS / "advanced/timeouts.md").read_text().split("\n")
    assert len(text) > 80
    assert read == [f"{number}: {line}" for number, line in enumerate(text[:80], 1)]


def test_the_cited_lines_say_what_the_answer_says() -> None:
    lines = (HTTPX_DOCS / "advanced/timeouts.md").read_text().split("\n")

    for kind, first, last in [("connect", 48, 50), ("pool", 57, 61)]:
        cited = " ".join(lines[first - 1 : last])
        assert cited.startswith(f"* **{kind}**")
        assert cited.endswith(f"`{kind.title()}Timeout`.")


def test_a_tool_that_does_not_exist() -> None:
    """The lesson's first exercise, first half."""
    search_web = act(None, ("search_web", '{"query": "httpx"}', "c0"))
    run = play([search_web, SEARCH, READ, MISSPELT, say(ANSWER)])

    assert run.observations[0].startswith("错误：没有叫 search_web 的工具")
    assert "list_docs、grep_docs、read_doc" in run.observations[0]
    assert run.observations[1:] == play([SEARCH, READ, MISSPELT, say(ANSWER)]).observations
    assert run.answer == ANSWER
    assert run.view.steps == 5


def test_an_argument_of_the_wrong_type() -> None:
    """The lesson's first exercise, second half."""
    wrong = act(None, ("read_doc", '{"path": "advanced/timeouts.md", "start": "abc"}', "c0"))
    run = play([SEARCH, wrong, READ, say(ANSWER)])

    told = run.observations[1]
    assert told.startswith("错误：read_doc 的参数不对：\n- start：")
    assert '（收到 "abc"）' in told
    assert run.answer == ANSWER
    flags = [event.data.get("error") for event in run.events if event.kind == "observation"]
    assert flags == [None, True, None]


def test_at_most_two_steps() -> None:
    """The lesson's second exercise: the limit ends the run without an answer."""
    run = play([SEARCH, READ], max_steps=2)

    assert run.outcome is not None
    assert (run.outcome.ok, run.outcome.reason, run.outcome.value) == (False, "max_steps", None)
    assert "2 of 2 steps" in run.outcome.text
    assert chinese_lines(run)[-1] == "达到最大步数 2，停止。"
    assert len(run.observations) == 2


def test_one_more_tool_that_counts_lines() -> None:
    """The lesson's third exercise."""
    pages = ["advanced/timeouts.md", "quickstart.md", "advanced/longest.md"]
    script = [
        act(None, ("list_docs", {})),
        act(None, *(("count_lines", {"path": page}) for page in pages)),
        say("advanced/timeouts.md 最长。"),
    ]
    run = play(script, "httpx 的哪个文档文件最长？", tools=[*HTTPX.tools, count_lines])

    listed = run.observations[0].split("\n")
    assert listed[:4] == [
        "advanced/authentication.md",
        "advanced/clients.md",
        "advanced/event-hooks.md",
        "advanced/extensions.md",
    ]
    assert "LICENSE.md" not in listed
    counted = {page: len((HTTPX_DOCS / page).read_text().splitlines()) for page in listed}
    assert max(counted, key=lambda page: counted[page]) == "advanced/timeouts.md"
    assert run.observations[1:] == [
        f"advanced/timeouts.md 共 {counted['advanced/timeouts.md']} 行",
        f"quickstart.md 共 {counted['quickstart.md']} 行",
        "错误：没有这个文件 advanced/longest.md，请先用 list_docs 查看有哪些文件",
    ]


def test_a_question_that_the_docs_do_not_answer() -> None:
    """The lesson's fourth exercise: it says so, and no file and line."""
    script = [
        act(None, ("grep_docs", {"keyword": "HTTP/3"})),
        act(None, ("grep_docs", {"keyword": "h3"})),
        say("文档里没有提到 HTTP/3。"),
    ]
    run = play(script, "httpx 支持 HTTP/3 吗？")

    assert run.observations == ["没有找到 HTTP/3", "没有找到 h3"]
    assert run.view.steps == 3


def test_the_run_of_a_real_model_with_two_calls_in_one_reply() -> None:
    script = [
        act(None, ("grep_docs", {"keyword": "timeout"}, "a"), ("list_docs", {}, "b")),
        act(None, ("read_doc", {"path": "advanced/timeouts.md", "start": 1, "end": 80})),
        say("四种：connect、read、write、pool（advanced/timeouts.md 第 44–61 行）。"),
    ]
    run = play(script)

    assert run.view.steps == 3
    found, listed, read = run.observations
    assert found.startswith("advanced/extensions.md:10: # Request timeouts")
    assert listed.startswith("advanced/authentication.md\nadvanced/clients.md\n")
    assert read.count("\n") == 79
    answered = [m["tool_call_id"] for m in run.messages if m["role"] == "tool"]
    assert answered[:2] == ["a", "b"]


@pytest.mark.parametrize("path", ["../../../etc/passwd", "/etc/passwd", "advanced", "", "x" * 300])
def test_no_path_leads_out_of_the_folder(path: str) -> None:
    run = play([act(None, ("read_doc", {"path": path})), say("没有。")])
    assert run.observations == [f"错误：没有这个文件 {path}，请先用 list_docs 查看有哪些文件"]
