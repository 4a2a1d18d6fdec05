"""The tools of one agent: unique names, in order, and contexts that fit."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from worker.context import ActionContext
from worker.errors import ToolRegistrationError
from worker.tools import ToolBox, build_tool, tool

SOURCE = (
    "from worker.tools import tool\n\n@tool\ndef read_file(path: str) -> str:\n    return path\n"
)


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_c8_two_functions_of_one_name_are_refused_naming_both_places(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(SOURCE)
    one, other = (load(tmp_path / f"{name}.py", name) for name in ("first", "second"))
    with pytest.raises(ToolRegistrationError) as refused:
        ToolBox([one.read_file, other.read_file])
    assert "first:read_file" in str(refused.value)
    assert "second:read_file" in str(refused.value)


def test_c8_the_same_function_twice_and_the_same_module_imported_twice_are_fine(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tools.py"
    path.write_text(SOURCE)
    one, again = load(path, "tools"), load(path, "package.tools")
    assert one.read_file is not again.read_file
    box = ToolBox([one.read_file, one.read_file, again.read_file])
    assert box.names == ("read_file",)


def test_two_closures_of_one_function_are_two_functions() -> None:
    def make(word: str) -> Any:
        def say() -> str:
            return word

        return say

    with pytest.raises(ToolRegistrationError, match="two tools are called 'say'"):
        ToolBox([make("a"), make("b")])


def test_methods_of_two_objects_are_two_functions() -> None:
    class Shop:
        def find(self, order: str) -> str:
            return order

    shop = Shop()
    assert len(ToolBox([shop.find, shop.find])) == 1
    with pytest.raises(ToolRegistrationError, match="two tools are called 'find'"):
        ToolBox([shop.find, Shop().find])


@tool(tags=("read",))
def list_docs() -> str:
    return "a.md"


def grep_docs(keyword: str) -> str:
    return keyword


def test_one_function_with_two_sets_of_options_is_refused() -> None:
    with pytest.raises(ToolRegistrationError, match="different options"):
        ToolBox([grep_docs, build_tool(grep_docs, timeout=1)])


def test_the_order_is_kept() -> None:
    box = ToolBox([grep_docs, list_docs])
    assert box.names == ("grep_docs", "list_docs")
    assert [shown["function"]["name"] for shown in box.schemas()] == ["grep_docs", "list_docs"]
    assert [t.name for t in box] == ["grep_docs", "list_docs"]
    assert "grep_docs" in box
    assert box.get("other") is None


def test_a_tool_added_later_is_in_the_schemas() -> None:
    box = ToolBox([grep_docs])
    assert len(box.schemas()) == 1
    box.add(list_docs)
    assert len(box.schemas()) == 2


def test_tags_choose() -> None:
    assert ToolBox([grep_docs, list_docs]).tagged("read", "other").names == ("list_docs",)


class Db(ActionContext):
    pass


class Mail(ActionContext):
    pass


class Both(Db, Mail):
    pass


def query(sql: str, ctx: Db) -> None: ...
def send(to: str, ctx: Mail) -> None: ...
def maybe(ctx: Db | None = None) -> None: ...
def keyed(ctx: ActionContext) -> None: ...


def test_rule_10_a_missing_context_fails_at_start_up() -> None:
    box = ToolBox([query, send])
    box.check_context(Both)
    with pytest.raises(ToolRegistrationError, match=r"'send'.*Mail.*gives a Db"):
        box.check_context(Db)
    with pytest.raises(ToolRegistrationError, match=r"'query'.*Db.*has no context"):
        box.check_context(None)


def test_optional_and_plain_contexts_need_none() -> None:
    box = ToolBox([maybe, keyed])
    box.check_context(None)
    box.check_context(Db)
    with pytest.raises(ToolRegistrationError, match="'maybe'"):
        box.check_context(Mail)
