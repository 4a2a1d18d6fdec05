"""The fenced blocks of a page, and the markers above them.

A marker is a comment on the line above a block:

``<!-- not run: REASON -->``        it cannot be run here
``<!-- tested: tests/… -->``        a test of its own does the same
``<!-- in the background -->``      it goes on until the page ends, or a ``stop``
``<!-- stop -->``                   what runs in the background gets a Ctrl-C first
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.workers import ROOT

_FENCE = re.compile(r"^ *```(\w*)$")
_MARKER = re.compile(r"^<!-- (.+) -->$")
_FILE = re.compile(r"^# ([\w./-]+\.py)(, at its end)?$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; ``line`` is that of its first fence."""

    page: str
    line: int
    language: str
    text: str
    markers: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def marked(self, name: str) -> str | None:
        """What a marker of this name says; ``None`` if there is none."""
        for marker in self.markers:
            found, _, rest = marker.partition(": ")
            if found == name:
                return rest
        return None

    @property
    def file(self) -> tuple[str, bool] | None:
        """The file that a Python block is, by its first line; and whether it is added to it."""
        found = _FILE.match(self.text.partition("\n")[0])
        if self.language != "python" or found is None:
            return None
        return found[1], found[2] is not None

    @property
    def elsewhere(self) -> bool:
        """It is not the player's."""
        return self.marked("not run") is not None or self.marked("tested") is not None


def pages() -> list[Path]:
    """The README and everything in ``docs`` that is not written from the code."""
    docs = ROOT / "docs"
    written = [p for p in sorted(docs.rglob("*.md")) if p.parent.name != "reference"]
    return [ROOT / "README.md", *written]


def blocks_of(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    return list(_blocks(str(page.relative_to(ROOT)), page.read_text().splitlines()))


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    begin: int | None = None
    language = ""
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        assert fence or not line.lstrip().startswith(("```", "~~~")), f"{page}:{number}: {line}"
        if fence and begin is None:
            begin, language = number, fence[1]
        elif fence and begin is not None:
            text = "".join(f"{one}\n" for one in lines[begin : number - 1])
            yield Block(page, begin, language, text, _markers(lines[: begin - 1]))
            begin = None
    assert begin is None, f"{page}:{begin}: this block has no end"


def _markers(above: list[str]) -> tuple[str, ...]:
    found = []
    for line in reversed(above):
        marker = _MARKER.match(line)
        if marker is None:
            break
        found.append(marker[1])
    return tuple(reversed(found))
