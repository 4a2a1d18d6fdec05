"""The lessons' runs with the real SDK and real sockets between the agents and their script.

The server is as strict as the strictest providers: it refuses a history that is not valid.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from api_client.contract import Answer
from tests.support.lessons import HTTPX_DOCS, chinese_lines, german_lines
from worker.agent import Agent
from worker.devserver import Fault, ModelServer, Strict
from worker.examples.book import Book
from worker.examples.calculator import Library, calculator
from worker.examples.docs import docs_agent
from worker.examples.folder import Folder
from worker.examples.scripts import (
    CALCULATOR_SCRIPT,
    CALCULATOR_TASK,
    COMPENSATION_TASK,
    COURIER_TASK,
    RETURN_TASK,
    shop_reply,
)
from worker.examples.shop import shop
from worker.inline import InlineRun, run_inline
from worker.models import OpenAIModel, act, say

KEY = "a-key-nobody-may-see"
LOOKED_UP = [
    act(None, ("grep_docs", {"keyword": "pool timeout"})),
    act(None, ("read_doc", {"path": "advanced/timeouts.md", "start": 1, "end": 200})),
    act(None, ("search_web", {"query": "httpx"}), ("read_doc", {"path": "advanced/timeout.md"})),
    act(None, ("read_doc", '{"path": "advanced/timeouts.md", "start": "abc"}')),
    say("四种（见 advanced/timeouts.md 第 43～62 行）。"),
]


def serve(source: Any, agent: Agent, task: str, **options: Any) -> tuple[InlineRun, ModelServer]:
    """Run a job whose model is behind a server."""
    with ModelServer(source, strict=Strict(), **options.pop("server", {})) as server:
        model = OpenAIModel("scripted", base_url=server.base_url, api_key="some-key-or-other")
        run = run_inline(agent, task, model=model, **options)
        model.close()
    return run, server


@pytest.fixture
def desk(tmp_path: Path) -> tuple[Agent, Book]:
    """The shop, and its list of requests."""
    book = Book(f"sqlite:///{tmp_path}/shop.sqlite3")
    return replace(shop, context=book), book


def test_docs_with_everything_that_can_go_wrong_in_a_script() -> None:
    run, server = serve(LOOKED_UP, docs_agent("httpx", Folder(HTTPX_DOCS)), "哪几种超时？")

    assert run.answer == "四种（见 advanced/timeouts.md 第 43～62 行）。"
    shown = chinese_lines(run)
    assert shown[0].endswith("→ 没有找到 pool timeout")
    assert "错误：没有叫 search_web 的工具" in shown[2]
    assert "错误：没有这个文件 advanced/timeout.md" in shown[3]
    assert "错误：read_doc 的参数不对" in shown[4]
    assert server.count == 5


def test_each_request_is_the_one_before_and_what_came_since() -> None:
    """Append-only on the wire as well, so that a provider's cache can help."""
    _, server = serve(LOOKED_UP, docs_agent("httpx", Folder(HTTPX_DOCS)), "哪几种超时？")

    sent = [body["messages"] for body in server.bodies]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
    assert [len(messages) for messages in sent] == [2, 4, 6, 9, 11]


def test_the_return(desk: tuple[Agent, Book]) -> None:
    agent, book = desk
    run, server = serve(shop_reply, agent, RETURN_TASK)

    assert "R-1" in run.answer
    assert (book.entries(), book.asked()) == (["für 1187"], [1])
    assert german_lines(run)[6] == (
        "    Beobachtung: R-1 für 1187 — wartet auf die Freigabe durch einen Kollegen"
    )
    first = server.bodies[0]
    assert first["messages"] == [
        {"role": "system", "content": shop.goal},
        {"role": "user", "content": RETURN_TASK},
    ]
    names = [tool["function"]["name"] for tool in first["tools"]]
    assert names == [
        "get_order_status",
        "estimate_delivery",
        "open_return_request",
        "hand_to_human",
    ]


def test_the_courier_with_and_without_the_check(desk: tuple[Agent, Book]) -> None:
    agent, _ = desk
    checked, short = serve(shop_reply, agent, COURIER_TASK)
    unchecked, long = serve(shop_reply, replace(agent, max_repeats=None), COURIER_TASK)

    assert german_lines(checked)[-1] == "  Stopp: dieselbe Aktion zweimal → an einen Kollegen"
    assert german_lines(unchecked)[-1] == "  Stopp: 5 Schritte ohne Antwort → an einen Kollegen"
    assert (short.count, long.count) == (2, 5)


def test_the_compensation(desk: tuple[Agent, Book]) -> None:
    agent, _ = desk
    decision = Answer(value="15 €.", by="Ada")
    run, server = serve(shop_reply, agent, COMPENSATION_TASK, answers=lambda _: decision)

    assert run.answer.endswith("entschieden: 15 €.")
    assert server.bodies[-1]["messages"][-1]["content"] == "Antwort eines Menschen: 15 €."


def test_an_overloaded_server_is_asked_again(desk: tuple[Agent, Book]) -> None:
    agent, book = desk
    busy = Fault.status(503, headers={"retry-after": "1"})
    run, server = serve(shop_reply, agent, RETURN_TASK, server={"faults": [None, busy, busy]})

    assert "R-1" in run.answer
    assert server.count == 5
    assert book.asked() == [1]


def test_the_calculator_and_its_hidden_context(tmp_path: Path) -> None:
    library = Library(f"sqlite:///{tmp_path}/papers.sqlite3", KEY)
    agent = replace(calculator, context=library)
    run, server = serve(CALCULATOR_SCRIPT, agent, CALCULATOR_TASK)

    assert run.answer == {"value": 420}
    assert Book(library.database_url).asked() == [1]
    sent = repr([(r.headers, r.body) for r in server.requests])
    assert KEY not in sent
    assert "library" not in sent
