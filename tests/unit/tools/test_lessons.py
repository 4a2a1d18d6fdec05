"""The tools that the product grew from, and the observations that they have always made."""

from pathlib import Path
from typing import Any

import pytest

from worker.errors import ArgumentError
from worker.texts import TEXTS
from worker.tools import ToolBox, as_tool, tool

ZH = TEXTS["zh"]


@pytest.fixture
def read_doc(tmp_path: Path) -> Any:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "timeouts.md").write_text("\n".join(f"line {n}" for n in range(1, 201)))

    @tool("读取一个文档文件的指定行，返回带行号的内容。一次最多读 80 行。")
    def read_doc(path, start: int = 1, end: int = 80):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        target = (docs / path).resolve()
        if docs not in target.parents or not target.exists():
            return f"错误：没有这个文件 {path}，请先用 list_docs 查看有哪些文件"
        lines = target.read_text().splitlines()
        end = min(end, start + 79, len(lines))
        return "\n".join(f"{n}: {lines[n - 1]}" for n in range(start, end + 1))

    return read_doc


def test_a_documents_lines_are_numbered_and_eighty_at_most(run: Any, read_doc: Any) -> None:
    seen = run(read_doc, '{"path": "timeouts.md", "start": 1, "end": 200}')
    assert seen.content.startswith("1: line 1\n2: line 2\n")
    assert seen.content.endswith("80: line 80")


def test_a_wrong_file_name_is_a_result_and_a_path_outside_is_refused(
    run: Any, read_doc: Any
) -> None:
    for path in ("timeout.md", "../../../etc/passwd"):
        seen = run(read_doc, f'{{"path": "{path}"}}')
        assert seen.content == f"错误：没有这个文件 {path}，请先用 list_docs 查看有哪些文件"


def test_a_start_that_is_no_number_comes_back_to_the_model(read_doc: Any) -> None:
    with pytest.raises(ArgumentError) as refused:
        as_tool(read_doc).parse('{"path": "timeouts.md", "start": "abc"}', ZH)
    assert refused.value.text.startswith("错误：read_doc 的参数不对：\n- start：")
    assert '"abc"' in refused.value.text


@tool
def add(a: float, b: float) -> float:
    """Adds two floats."""
    return a + b


def test_the_description_of_add() -> None:
    assert ToolBox([add]).schemas() == [
        {
            "type": "function",
            "function": {
                "name": "add",
                "description": "Adds two floats.",
                "parameters": {
                    "type": "object",
                    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                    "required": ["a", "b"],
                    "additionalProperties": False,
                },
            },
        }
    ]


def test_200_and_10_are_210(run: Any) -> None:
    assert run(add, '{"a":200,"b":10}').content == "210"
