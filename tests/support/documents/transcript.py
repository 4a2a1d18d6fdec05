"""What a command printed, against what the page says it prints.

Times and dates count as equal. A lone ``…`` is any lines, one within a line any text. The first id
that stands at the place of an id of the page is meant by it from then on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_SAME = [
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?(\+\d\d:\d\d)?"), "DATE"),
    (re.compile(r"\b(\d+ (min|h|d) )?[\d.,]+ ?m?s\b"), "TIME"),
    (re.compile(r" {2,}"), "  "),
]
_EXIT = re.compile(r"^\[exit code (\d+)\]$")


@dataclass(frozen=True, slots=True)
class Said:
    """One command of a page, and what the page shows below it."""

    command: str
    output: str
    exit_code: int


def commands(text: str) -> Iterator[Said]:
    """The commands of a ``console`` block: lines behind ``$``, each with its output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        code = _EXIT.match(lines[-1]) if lines else None
        shown = lines[:-1] if code else lines
        yield Said(command, "\n".join(shown), int(code[1]) if code else 0)


@dataclass
class Ids:
    """Which id each id of the page stands for."""

    known: dict[str, str] = field(default_factory=dict)

    def put_in(self, text: str) -> str:
        """The text with the real ids."""
        return _UUID.sub(lambda found: self.known.get(found[0], found[0]), text)

    def match(self, expected: str, printed: str, *, whole: bool = True) -> bool:
        """Whether this was printed; learns the ids in it.

        Args:
            whole: all of it, and not only a part.
        """
        names: dict[str, str] = {}
        lines = "\n".join(self._line(line, names) for line in _normal(expected).splitlines())
        pattern = lines.replace("<ANY>\n", r"(?:.*\n)*?").replace("\n<ANY>", r"(?:\n.*)*?")
        pattern = pattern.replace("<ANY>", r"(?s:.*)")  # alone: whatever was printed
        find = re.fullmatch if whole else re.search
        found = find(pattern, _normal(printed))
        if found is None:
            return False
        self.known |= {page: found[name] for page, name in names.items()}
        return True

    def _line(self, line: str, names: dict[str, str]) -> str:
        if line == "…":
            return "<ANY>"
        parts = re.split(rf"({_UUID.pattern}|…)", line)
        return "".join(self._part(part, names) for part in parts)

    def _part(self, part: str, names: dict[str, str]) -> str:
        if part == "…":
            return ".*?"
        if not _UUID.fullmatch(part):
            return re.escape(part)
        if part in self.known:
            return re.escape(self.known[part])
        if part in names:
            return f"(?P={names[part]})"
        names[part] = f"id{len(names)}"
        return f"(?P<{names[part]}>{_UUID.pattern})"


def _normal(text: str) -> str:
    for pattern, same in _SAME:
        text = pattern.sub(same, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
