"""An agent that answers from a folder of Markdown, and names the file and the lines."""

from __future__ import annotations

from worker.agent import Agent
from worker.examples.folder import Folder, FolderSource, project_docs
from worker.tools import build_tool, tool

GOAL = """你是 {0} 的答疑助手，可以使用工具查阅 {0} 的官方文档。
先用工具找到依据，再回答；回答要注明依据的文件和行号。找不到依据就如实说明。"""
SEARCHING = "在 {} 文档里搜索一个英文关键词（不区分大小写），返回出现的文件和行号，最多 20 条。"


def list_docs(docs: Folder) -> str:
    return "\n".join(path for path in docs.pages() if not path.endswith("LICENSE.md"))


def grep_docs(keyword: str, docs: Folder) -> str:
    """:param keyword: 要搜索的英文关键词，例如 timeout"""
    hits = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path in docs.pages()
        for number, line in enumerate(docs.lines(path), 1)
        if keyword.lower() in line.lower()
    ]
    return "\n".join(hits[:20]) or f"没有找到 {keyword}"


@tool("读取一个文档文件的指定行，返回带行号的内容。一次最多读 80 行。", effects="safe")
def read_doc(path: str, docs: Folder, start: int = 1, end: int = 80) -> str:
    """
    :param path: 文件路径，来自 list_docs 或 grep_docs 的结果
    :param start: 起始行号，从 1 开始
    :param end: 结束行号
    """
    if path not in docs:
        return f"错误：没有这个文件 {path}，请先用 list_docs 查看有哪些文件"
    lines, first = docs.lines(path), max(start, 1)
    numbers = range(first, min(end, first + 79, len(lines)) + 1)
    return "\n".join(f"{n}: {lines[n - 1]}" for n in numbers) or f"{path} 共 {len(lines)} 行"


def docs_agent(subject: str, folder: FolderSource) -> Agent:
    """An agent that knows its way about the docs of ``subject`` in ``folder``."""
    listing = build_tool(
        list_docs, description=f"列出 {subject} 文档的所有文件路径。", effects="safe"
    )
    searching = build_tool(grep_docs, description=SEARCHING.format(subject), effects="safe")
    return Agent(
        name="docs",
        goal=GOAL.format(subject),
        tools=[listing, searching, read_doc],
        context=folder,
        max_steps=8,
        on_limit="stop",
        language="zh",
    )


docs = docs_agent("Stepkeeper", project_docs)
