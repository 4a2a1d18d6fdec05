"""Reads what a docstring says about a function and its parameters.

Google, numpy and Sphinx styles are understood. A docstring in no known style, or in one that
names none of the function's parameters, describes the function as a whole. Nothing here raises.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from dataclasses import dataclass, field

_PARAMETERS = frozenset(
    {"args", "arguments", "parameters", "params", "argumente", "parameter", "参数", "參數"}
)
_GOOGLE_HEAD = re.compile(r"(\w[\w ]*)\s*[:：]\s*$")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*[:：]\s*(.*)$")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX_PARAMETER = re.compile(r":(?:param|parameter|arg|argument|key)\s+([^:]*?)(\w+)\s*:\s*(.*)$")
_SPHINX_FIELD = re.compile(r":\w+[^:]*:")
_SPHINX_TYPE = re.compile(r":(?:type\s+\w+|rtype)\s*:")


@dataclass(slots=True)
class Documentation:
    """What a docstring says: about the whole, and about each parameter by name."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(docstring: str | None, names: Collection[str]) -> Documentation:
    """Split a docstring into the description and what it says of the parameters ``names``."""
    text = inspect.cleandoc(docstring or "").strip()
    lines = text.splitlines()
    for read in (_google, _numpy, _sphinx):
        rest, found = read(lines)
        known = {name: said for name, said in found.items() if name in names and said}
        if known:
            return Documentation(_joined(rest), known)
    return Documentation(text)


def _joined(lines: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_parameter_head(line: str) -> bool:
    match = _GOOGLE_HEAD.fullmatch(line)
    return match is not None and match.group(1).strip().lower() in _PARAMETERS


def _google(lines: list[str]) -> tuple[list[str], dict[str, str]]:
    """``Args:`` and an indented block of ``name (type): text``."""
    rest: list[str] = []
    found: dict[str, str] = {}
    block: list[str] | None = None
    for line in [*lines, "end"]:
        if block is not None and (not line.strip() or _indent(line) > 0):
            block.append(line)
            continue
        if block is not None:
            found.update(_google_entries(block))
            block = None
        if _is_parameter_head(line):
            block = []
        else:
            rest.append(line)
    return rest[:-1], found


def _google_entries(block: list[str]) -> dict[str, str]:
    filled = [line for line in block if line.strip()]
    base = min(map(_indent, filled), default=0)
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in filled:
        entry = _GOOGLE_ENTRY.match(line.strip()) if _indent(line) == base else None
        if entry:
            current = entries[entry.group(1)] = [entry.group(2)]
        else:
            current.append(line.strip())
    return {name: " ".join(said).strip() for name, said in entries.items()}


def _numpy(lines: list[str]) -> tuple[list[str], dict[str, str]]:
    """``Parameters`` underlined with dashes, then ``name : type`` and indented text."""
    start = next((n for n in range(len(lines)) if _is_numpy_head(lines, n)), None)
    if start is None:
        return lines, {}
    end = next((n for n in range(start + 2, len(lines)) if _is_underlined(lines, n)), len(lines))
    return lines[:start] + lines[end:], _numpy_entries(lines[start + 2 : end])


def _is_underlined(lines: list[str], number: int) -> bool:
    following = lines[number + 1].strip() if number + 1 < len(lines) else ""
    return bool(lines[number].strip()) and len(following) >= 3 and set(following) == {"-"}


def _is_numpy_head(lines: list[str], number: int) -> bool:
    return lines[number].strip().lower() in _PARAMETERS and _is_underlined(lines, number)


def _numpy_entries(block: list[str]) -> dict[str, str]:
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in filter(str.strip, block):
        entry = _NUMPY_ENTRY.match(line) if _indent(line) == 0 else None
        if entry:
            current = []
            for name in entry.group(1).split(","):
                entries[name.strip().lstrip("*")] = current
        else:
            current.append(line.strip())
    return {name: " ".join(said) for name, said in entries.items()}


def _sphinx(lines: list[str]) -> tuple[list[str], dict[str, str]]:
    """``:param type name: text``, with continuation lines until the next field or blank line."""
    rest: list[str] = []
    entries: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        stripped = line.strip()
        entry = _SPHINX_PARAMETER.match(stripped)
        if entry:
            current = entries[entry.group(2)] = [entry.group(3)]
        elif _SPHINX_TYPE.match(stripped):
            current = None
        elif current is not None and stripped and not _SPHINX_FIELD.match(stripped):
            current.append(stripped)
        else:
            current = None
            rest.append(line)
    return rest, {name: " ".join(said).strip() for name, said in entries.items()}
