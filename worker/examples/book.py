"""A numbered list of entries in an SQLite file: what the tools of the examples write to."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from worker.context import ActionContext

_SCHEME = "sqlite:///"
_TABLE = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    asked INTEGER NOT NULL DEFAULT 1
)"""
_ADD = """
INSERT INTO entries (key, text) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET asked = asked + 1
RETURNING number"""


class Book(ActionContext):
    """Entries that are made once per key, whichever process asks, and however often.

    It can be an agent's hidden context as it is.

    Args:
        url: ``sqlite:///`` and the path of the file, which is made, with its folder, when
            something is written first.
    """

    def __init__(self, url: str) -> None:
        self.path = Path(url.removeprefix(_SCHEME))

    def add(self, key: str, text: str) -> int:
        """The number of the entry with this key, from 1; the text counts the first time only."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as database:
            number: int = database.execute(_ADD, (key, text)).fetchone()[0]
            return number

    def entries(self) -> list[str]:
        """The texts, in the order of their numbers."""
        return [text for text, _ in self._rows()]

    def asked(self) -> list[int]:
        """For each entry how often it was asked for: more than 1 where a tool ran again."""
        return [asked for _, asked in self._rows()]

    def _rows(self) -> list[tuple[str, int]]:
        if not self.path.exists():
            return []
        with self._open() as database:
            return database.execute("SELECT text, asked FROM entries ORDER BY number").fetchall()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction: calls come from any thread and any process."""
        with closing(sqlite3.connect(self.path, timeout=30)) as database, database:
            database.execute(_TABLE)
            yield database


def data_url(variable: str, name: str) -> str:
    """Where an example keeps its data: what the environment variable says, or the user's own."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return os.environ.get(variable) or f"{_SCHEME}{Path(home, 'stepkeeper', name)}"
