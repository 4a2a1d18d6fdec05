"""The parts in their order, and the object that holds what they found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from worker.bench import latency, paused, recover, steps, submit, throughput, waiting
from worker.bench.machine import describe_machine
from worker.bench.measuring import Row
from worker.bench.options import Options
from worker.bench.room import room

Part = Callable[[Options, Callable[[str], None]], list[Row]]

PARTS: dict[str, Part] = {
    "steps": steps.measure,
    "throughput": throughput.measure,
    "waiting": waiting.measure,
    "latency": latency.measure,
    "paused": paused.measure,
    "recover": recover.measure,
    "submit": submit.measure,
}


def run_bench(
    parts: Sequence[str], options: Options, say: Callable[[str], None] = lambda _line: None
) -> dict[str, Any]:
    """Measure; returns ``machine`` and, by the name of each part, its rows.

    Args:
        parts: names from ``PARTS``; one that is named twice is measured once.
        say: told in one line what is being measured.

    Raises:
        EmbeddedServerError: there is no server to measure on.
    """
    with room() as here:
        found: dict[str, Any] = {"machine": describe_machine(here.redis)}
    for name in dict.fromkeys(parts):
        found[name] = PARTS[name](options, say)
    return found
