"""The parts of the examples: the folder, the book, the scripts, and what ships with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from api_client.contract import JobSpec
from tests.support.lessons import HTTPX_DOCS, chinese_lines
from worker.agent import Agent
from worker.discovery import load_agents
from worker.examples import calculator_agent, docs_agent, shop_agent
from worker.examples.book import Book, data_url
from worker.examples.counting import counting
from worker.examples.docs import docs_agent as make_docs_agent
from worker.examples.folder import Folder, project_docs, shipped_pages
from worker.examples.scripts import (
    CALCULATOR_TASK,
    DOCS_SCRIPT,
    DOCS_TASK,
    THANKS,
    model,
)
from worker.inline import run_inline
from worker.models import act, say

SPEC = JobSpec(job_id="j", agent="docs", input="?")


def test_the_package_is_what_a_worker_is_told() -> None:
    found = load_agents(["worker.examples"])
    assert {agent.name for agent in found} == {"calculator", "docs", "shop"}
    assert {id(agent) for agent in found} == {id(calculator_agent), id(docs_agent), id(shop_agent)}


@pytest.mark.parametrize("name", ["docs", "shop", "calculator"])
def test_an_agent_is_at_most_sixty_lines(name: str) -> None:
    source = Path(__file__).parents[3] / "worker" / "examples" / f"{name}.py"
    assert len(source.read_text().splitlines()) <= 60


# --- the folder ----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pages, a file beside the folder, and links to both."""
    inside = tmp_path / "pages"
    (inside / "deep").mkdir(parents=True)
    (inside / "a.md").write_text("first\nsecond\n")
    (inside / "deep" / "b.md").write_text("third\n")
    (inside / "notes.txt").write_text("no page\n")
    (tmp_path / "secret.md").write_text("secret\n")
    (inside / "good-link.md").symlink_to(inside / "deep" / "b.md")
    (inside / "bad-link.md").symlink_to(tmp_path / "secret.md")
    (inside / "bad-folder").symlink_to(tmp_path)
    (inside / "broken.md").symlink_to(inside / "nowhere.md")
    return inside


def test_a_folder_lists_its_pages_and_no_others(folder: Path) -> None:
    assert Folder(folder).pages() == ["a.md", "deep/b.md", "good-link.md"]


@pytest.mark.parametrize(
    "path",
    [
        "../secret.md",
        "deep/../../secret.md",
        "bad-link.md",
        "bad-folder/secret.md",
        "broken.md",
        "notes.txt",
        "deep",
        ".",
        "",
        "a\0.md",
        "x" * 5000 + ".md",
    ],
)
def test_a_folder_knows_no_other_paths(folder: Path, path: str) -> None:
    pages = Folder(folder)
    assert path not in pages
    with pytest.raises(ValueError, match="not in the folder"):
        pages.lines(path)


def test_an_absolute_path_out_of_the_folder_is_none_of_its_pages(folder: Path) -> None:
    assert str(folder.parent / "secret.md") not in Folder(folder)


@pytest.mark.parametrize("path", ["a.md", "deep/../a.md", "./a.md"])
def test_dots_within_the_folder_do_no_harm(folder: Path, path: str) -> None:
    assert Folder(folder).lines(path) == ["first", "second"]


def test_a_search_does_not_follow_a_link_out(folder: Path) -> None:
    agent = make_docs_agent("x", Folder(folder))
    script = [act("", ("grep_docs", {"keyword": "secret"})), say("no")]
    assert run_inline(agent, "?", model=script).observations == ["没有找到 secret"]


# --- the tools of docs ---------------------------------------------------------------------


def play(pages: Path, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    agent = make_docs_agent("x", Folder(pages))
    return run_inline(agent, "?", model=[act("", *calls), say("done")]).observations


def test_at_most_twenty_hits(tmp_path: Path) -> None:
    (tmp_path / "many.md").write_text("A Timeout here\n" * 30)
    (hits,) = play(tmp_path, ("grep_docs", {"keyword": "tIMEOUT"}))
    assert hits.split("\n") == [f"many.md:{n}: A Timeout here" for n in range(1, 21)]


def test_a_hit_shows_a_hundred_characters(tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text(f"   needle {'x' * 200}\n")
    (hit,) = play(tmp_path, ("grep_docs", {"keyword": "needle"}))
    assert hit == f"long.md:1: needle {'x' * 93}"


@pytest.mark.parametrize(
    ("start", "end", "first", "last"),
    [(1, 200, 1, 80), (20, 300, 20, 99), (90, 200, 90, 100), (0, 3, 1, 3), (-5, 2, 1, 2)],
)
def test_which_lines_are_read(tmp_path: Path, start: int, end: int, first: int, last: int) -> None:
    (tmp_path / "p.md").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    (read,) = play(tmp_path, ("read_doc", {"path": "p.md", "start": start, "end": end}))
    assert read.split("\n") == [f"{n}: line {n}" for n in range(first, last + 1)]


def test_reading_behind_the_end_says_where_that_is(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text("one\ntwo\n")
    assert play(tmp_path, ("read_doc", {"path": "p.md", "start": 9})) == ["p.md 共 2 行"]


def test_a_long_reading_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text("".join("x" * 96 + "\n" for _ in range(80)))
    (read,) = play(tmp_path, ("read_doc", {"path": "p.md"}))
    whole = "\n".join(f"{n}: {'x' * 96}" for n in range(1, 81))
    assert read == f"{whole[:3000]}\n……（内容太长，已截断，共 {len(whole)} 字符）"


def test_the_agent_that_counts_is_another_agent() -> None:
    assert counting.name == "docs-counting"
    assert counting.toolbox.names == ("list_docs", "grep_docs", "read_doc", "count_lines")
    assert counting.version != docs_agent.version


# --- where the docs come from --------------------------------------------------------------


def test_a_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPKEEPER_DOCS_DIR", str(HTTPX_DOCS))
    assert "advanced/timeouts.md" in project_docs(SPEC)


def test_the_projects_own_docs_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.examples.folder.__file__", "/nowhere/worker/examples/folder.py")
    assert project_docs(SPEC).pages() == []
    monkeypatch.undo()
    assert project_docs(SPEC).pages()


def test_the_shipped_pages_answer_the_scripted_question() -> None:
    pages = shipped_pages()
    run = run_inline(make_docs_agent("Stepkeeper", Folder(pages)), DOCS_TASK, model=DOCS_SCRIPT)

    lines = chinese_lines(run)
    assert lines[0].endswith("→ 没有找到 paused worker")
    assert run.observations[1].count("\n") == 79
    assert len((pages / "jobs.md").read_text().splitlines()) > 80
    assert run.observations[2].startswith("错误：没有这个文件 job.md")
    cited = re.search(r"jobs\.md 第 (\d+)～(\d+) 行", run.answer)
    assert cited is not None
    first, last = map(int, cited.groups())
    assert (pages / "jobs.md").read_text().splitlines()[first - 1 : last] == [
        "A paused job holds nothing but its record in Redis:",
        "",
        "- no worker",
        "- no thread",
        "- no message in a queue",
    ]


# --- the book ------------------------------------------------------------------------------


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(f"sqlite:///{tmp_path}/new/book.sqlite3")


def test_a_book_is_empty_before_anything_is_written(book: Book) -> None:
    assert (book.entries(), book.asked()) == ([], [])
    assert not book.path.exists()


def test_one_key_is_one_entry_however_often(book: Book) -> None:
    numbers = [book.add("a", "first"), book.add("b", "second"), book.add("a", "other words")]
    assert numbers == [1, 2, 1]
    assert (book.entries(), book.asked()) == (["first", "second"], [2, 1])


def test_writers_at_once_get_a_number_each(book: Book) -> None:
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda n: book.add(f"k{n % 20}", f"t{n % 20}"), range(60)))
    assert sorted(set(numbers)) == list(range(1, 21))
    assert book.asked() == [3] * 20


def test_where_the_data_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_url("STEPKEEPER_SHOP_DB", "s") == f"sqlite:///{tmp_path}/stepkeeper/s"
    monkeypatch.setenv("STEPKEEPER_SHOP_DB", "sqlite:///elsewhere")
    assert data_url("STEPKEEPER_SHOP_DB", "s") == "sqlite:///elsewhere"


# --- one model for all of them -------------------------------------------------------------


def test_the_scripted_model_tells_the_agents_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STEPKEEPER_PAPERS_DB", f"sqlite:///{tmp_path}/papers")
    monkeypatch.setenv("STEPKEEPER_DOCS_DIR", str(shipped_pages()))
    runs: Sequence[tuple[Agent, str]] = [
        (docs_agent, DOCS_TASK),
        (shop_agent, "Danke!"),
        (calculator_agent, CALCULATOR_TASK),
    ]
    answers = [run_inline(agent, task, model=model()).answer for agent, task in runs]

    assert answers == [DOCS_SCRIPT[-1]["content"], THANKS, {"value": 420}]


def test_the_scripted_model_knows_no_other_agent() -> None:
    run = run_inline(Agent(name="other", goal="Something else."), "?", model=model())
    assert run.outcome is not None
    assert "no script for the goal 'Something else.'" in run.outcome.text
