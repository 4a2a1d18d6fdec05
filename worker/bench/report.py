"""What a benchmark found, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from worker.bench.measuring import Row


def tables(found: Mapping[str, Any]) -> Iterator[Table]:
    """The machine, and each part with a column a figure."""
    yield _machine(found["machine"])
    for name, rows in found.items():
        if name != "machine":
            yield _part(name, rows)


def _machine(machine: Mapping[str, Any]) -> Table:
    table = Table(title="machine", show_header=False)
    for name, value in machine.items():
        table.add_row(name, shown(value))
    return table


def _part(name: str, rows: Sequence[Row]) -> Table:
    """A column a row, because there are more figures than rows."""
    table = Table(title=name, show_header=False)
    for figure in rows[0]:
        table.add_row(figure, *(shown(row.get(figure)) for row in rows))
    return table


def shown(value: Any) -> str:
    """A figure as people read it."""
    if isinstance(value, (list, tuple)):
        return " … ".join(map(shown, value))
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)
