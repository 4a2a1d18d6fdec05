"""The outside world of a chaos run: where tools leave their effects and models their bills.

An SQLite file, apart from the job store. Like a payment provider it keeps what it was asked to do
(attempts) apart from what it did (applied): a ``put`` under a key that it knows is done already,
a ``pay`` is done each time it is asked for.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from api_client.errors import InvalidInput
from worker.chaos.script import EFFECTS

_TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE calls (place TEXT NOT NULL, at_ms INTEGER NOT NULL);
CREATE TABLE refusals (place TEXT PRIMARY KEY);
CREATE TABLE attempts (tool TEXT NOT NULL, place TEXT NOT NULL, key TEXT NOT NULL);
CREATE TABLE applied (tool TEXT NOT NULL, place TEXT NOT NULL, key TEXT NOT NULL);
CREATE UNIQUE INDEX one_put_a_key ON applied (key) WHERE tool = 'put';
CREATE INDEX by_key ON applied (key);
"""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One paid call: ``JOB.STEP`` and when it began, in milliseconds since the epoch."""

    place: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Entries:
    """Everything that a ledger holds.

    Attributes:
        attempts: how often each (tool, place) was asked for.
        applied: how often it was done.
    """

    calls: tuple[ModelCall, ...]
    attempts: Counter[tuple[str, str]]
    applied: Counter[tuple[str, str]]


class Ledger:
    """Safe to use from many threads and processes, any of which may be killed in the middle."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Ledger:
        """A new, empty ledger.

        Raises:
            InvalidInput: the file exists.
        """
        if Path(path).exists():
            raise InvalidInput(f"{path} is the ledger of an earlier run; choose another folder")
        ledger = cls(path)
        with ledger._open() as database:
            database.executescript(_TABLES)
        return ledger

    def bill(self, place: str) -> None:
        """A model call has begun and will be paid for."""
        with self._open() as database:
            database.execute("INSERT INTO calls VALUES (?, ?)", (place, time.time_ns() // 10**6))

    def refuse_once(self, place: str) -> bool:
        """Whether the call at this place is the first one, which is refused and costs nothing."""
        with self._open() as database:
            done = database.execute("INSERT OR IGNORE INTO refusals VALUES (?)", (place,))
            return done.rowcount == 1

    def apply(self, tool: str, place: str, key: str) -> None:
        """Do what a tool asks for; what has no side effect is only noted as asked for."""
        row = (tool, place, key)
        with self._open() as database:
            database.execute("INSERT INTO attempts VALUES (?, ?, ?)", row)
            if EFFECTS[tool] != "safe":
                database.execute("INSERT OR IGNORE INTO applied VALUES (?, ?, ?)", row)

    def has(self, key: str) -> bool:
        """Whether something was done under this key: what a person finds who looks it up."""
        with self._open() as database:
            row = database.execute("SELECT 1 FROM applied WHERE key = ?", (key,)).fetchone()
            return row is not None

    def entries(self) -> Entries:
        """Everything."""
        with self._open() as database:
            calls = database.execute("SELECT place, at_ms FROM calls ORDER BY rowid").fetchall()
            attempts = database.execute("SELECT tool, place FROM attempts").fetchall()
            applied = database.execute("SELECT tool, place FROM applied").fetchall()
        return Entries(tuple(ModelCall(*row) for row in calls), Counter(attempts), Counter(applied))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction."""
        with closing(sqlite3.connect(self.path, timeout=60)) as database, database:
            # It must survive the death of processes, not of the machine.
            database.execute("PRAGMA synchronous = OFF")
            yield database
