"""The docs agent with one more tool: what it takes to add one."""

from __future__ import annotations

from dataclasses import replace

from worker.examples.docs import docs
from worker.examples.folder import Folder
from worker.tools import tool


@tool("返回一个文档文件有多少行。", effects="safe")
def count_lines(path: str, docs: Folder) -> str:
    """:param path: 文件路径，来自 list_docs 或 grep_docs 的结果"""
    if path not in docs:
        return f"错误：没有这个文件 {path}，请先用 list_docs 查看有哪些文件"
    return f"{path} 共 {len(docs.lines(path))} 行"


counting = replace(docs, name="docs-counting", tools=[*docs.tools, count_lines], version="")
