"""What was found, as an object for programs and as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from tests.peers.load import messages_bytes
from tests.peers.rounds import Found
from tests.peers.script import Figures
from worker.bench.measuring import rounded

NOTHING = "–"


def rows(found: Sequence[Found]) -> list[dict[str, Any]]:
    """A row a contender: medians, and the least and the most of each."""
    return [_row(one) for one in found]


def _row(found: Found) -> dict[str, Any]:
    contender = found.contender
    row: dict[str, Any] = {"name": contender.name, "ours": contender.ours, "note": contender.note}
    if found.why_not:
        return row | {"missing": found.missing, "failed": found.failed}
    asked, last = contender.asked, found.samples[-1]
    return row | {
        "one": {
            steps: _spread(found.samples, lambda figures, steps=steps: figures.one[steps])  # type: ignore[misc]
            for steps in last.one
        },
        "stored": dict(last.stored),
        "stored_ratio": {
            steps: rounded(stored / messages_bytes(steps)) for steps, stored in last.stored.items()
        },
        "many": None if last.many is None else _spread(found.samples, _many),
        "jobs": asked.jobs,
        "steps": asked.steps,
        "at_once": asked.at_once,
        "processes": asked.processes,
        "durability": last.durability,
        "versions": last.versions,
    }


def _many(figures: Figures) -> float:
    assert figures.many is not None
    return figures.many


def _spread(samples: Sequence[Figures], figure: Callable[[Figures], float]) -> dict[str, float]:
    values = [figure(sample) for sample in samples]
    return {
        name: rounded(float(of(values)))
        for name, of in (("median", median), ("least", min), ("most", max))
    }


def compared(of: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The best of the others at many jobs, and how often each of ours does as much.

    Empty without figures of others.
    """
    others = [row for row in of if not row["ours"] and row.get("many")]
    if not others:
        return {}
    best = max(others, key=lambda row: float(row["many"]["median"]))
    ours = [row for row in of if row["ours"] and row.get("many")]
    return {
        "best": best["name"],
        "many": best["many"]["median"],
        "ratios": {
            f"{row['name']}, {row['durability']}": rounded(
                row["many"]["median"] / best["many"]["median"]
            )
            for row in ours
        },
    }


def table(of: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The lines of a Markdown table; who could not be measured stands in it with the reason."""
    sizes = sorted({steps for row in of for steps in row.get("one", ())})
    heads = ["", "durability", *(f"one job of {steps}" for steps in sizes), "many jobs"]
    heads += [f"stored, {steps}" for steps in sizes]
    yield f"| {' | '.join(heads)} |"
    yield "|-" * len(heads) + "|"
    for row in of:
        yield f"| {' | '.join(_cells(row, sizes))} |"


def _cells(row: Mapping[str, Any], sizes: Sequence[int]) -> list[str]:
    why_not = row.get("missing") or row.get("failed")
    if why_not:
        return [row["name"], _one_line(why_not), *[NOTHING] * (2 * len(sizes) + 1)]
    return [
        row["name"],
        row["durability"],
        *(_shown(row["one"].get(steps)) for steps in sizes),
        _shown(row["many"]),
        *(_times(row["stored_ratio"].get(steps)) for steps in sizes),
    ]


def _shown(spread: Mapping[str, float] | None) -> str:
    if spread is None:
        return NOTHING
    return f"{spread['median']:,.0f} ({spread['least']:,.0f} … {spread['most']:,.0f})"


def _times(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio:,.1f} ×"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")
