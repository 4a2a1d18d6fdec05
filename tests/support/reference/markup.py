"""Markdown out of docstrings and values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

NOTICE = "<!-- Written by `make reference` from the code. Change the code, not this page. -->\n"


def page(title: str, lead: str, parts: Iterable[str]) -> str:
    """A whole page."""
    text = "\n\n".join((f"# {title}", NOTICE.strip(), lead, *parts))
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars and line ends in cells do not break it."""
    lines = [f"| {' | '.join(heads)} |", "|" + "-|" * len(heads)]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines)


def code(text: str) -> str:
    """A word of code; nothing for nothing."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Text of a docstring: its double backticks become single ones."""
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def attributes(documented: type) -> dict[str, str]:
    """What the docstring's section *Attributes* says of each, as one line."""
    return entries(inspect.getdoc(documented) or "", "Attributes")


def entries(doc: str, section: str) -> dict[str, str]:
    """The entries of one section of a docstring in Google's form, each as one line."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in _section(doc, section):
        head = re.match(r"(\*{0,2}\w+(?:, \w+)*): (.*)", line)
        if head and not line.startswith(" "):
            names = head.group(1).split(", ")
            found.update(dict.fromkeys(names, head.group(2)))
        else:
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
    return {name: prose(text.strip()) for name, text in found.items()}


def _section(doc: str, section: str) -> list[str]:
    lines = doc.splitlines()
    if f"{section}:" not in lines:
        return []
    rest = lines[lines.index(f"{section}:") + 1 :]
    end = next((i for i, line in enumerate(rest) if line and not line.startswith(" ")), len(rest))
    return inspect.cleandoc("\n".join(rest[:end])).splitlines()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
