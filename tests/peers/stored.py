"""How many bytes a server keeps, for peers that do not say it themselves."""

from __future__ import annotations

from pathlib import Path

import psycopg

_RELATIONS = """
    select coalesce(sum(pg_total_relation_size(c.oid)), 0)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')
"""
_SETTINGS = ("server_version", "fsync", "synchronous_commit")


def postgres_bytes(url: str) -> int:
    """All tables of a database, with their indexes and long values.

    Raises:
        psycopg.Error: the server does not answer.
    """
    with psycopg.connect(url) as connection:
        row = connection.execute(_RELATIONS).fetchone()
    return int(row[0]) if row else 0


def postgres_says(url: str) -> dict[str, str]:
    """Its version and what it does at a commit.

    Raises:
        psycopg.Error: the server does not answer.
    """
    with psycopg.connect(url) as connection:
        rows = [(name, connection.execute(f"show {name}").fetchone()) for name in _SETTINGS]
    return {name: str(row[0]) for name, row in rows if row}


def postgres_durability(url: str) -> str:
    """What it does at a commit, in a line."""
    says = postgres_says(url)
    return f"fsync {says['fsync']}, synchronous_commit {says['synchronous_commit']}"


def folder_bytes(folder: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
