"""A job's time as a picture: work to scale, waiting as hatched blocks that are not.

Pure functions of records; the template draws the blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from api_client.contract import Event

Kind = Literal["model", "tool", "person", "backoff", "queue", "jobs"]

WORK: frozenset[Kind] = frozenset({"model", "tool"})
WIDTH = 285.0
GAP = 2.0
_LEAST_WORK = 4.0
_WAIT = 30.0
_SHORT_WAIT = 5.0
_SHORT_MS = 1_000
_TINY_MS = 50
"""A wait shorter than this says nothing and is left out."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Some time of one kind."""

    kind: Kind
    ms: int
    step: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """A segment as it is drawn.

    Attributes:
        x, width: in the picture's own units.
        first: the first block of its step.
    """

    kind: Kind
    ms: int
    step: int
    x: float
    width: float
    first: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """All blocks, the whole width, and how much time of each kind there was."""

    blocks: Sequence[Block]
    width: float
    totals: dict[Kind, int]


def segments(events: Iterable[Event], now: int) -> list[Segment]:
    """How a job has spent its time.

    Args:
        now: milliseconds since the epoch; how long an open wait has lasted.
    """
    clock = _Clock()
    for event in events:
        clock.take(event)
    clock.close(now)
    return clock.found


class _Clock:
    """Follows one job."""

    def __init__(self) -> None:
        self.found: list[Segment] = []
        self._step = 0
        self._wait: tuple[Kind, int] | None = None

    def take(self, event: Event) -> None:
        data = event.data
        match event.kind:
            case "submitted":
                self._wait = ("queue", event.at)
            case "paused":
                self._end_wait(event.at)
                self._wait = ("person", event.at)
            case "retry" | "held_back":
                self._wait = ("backoff", event.at)
            case "awaiting":
                self._wait = ("jobs", event.at)
            case "released":
                self._wait = ("queue", event.at)
            case "signal":
                self._end_wait(event.at)
                self._wait = ("queue", event.at)
            case "claimed":
                self._end_wait(event.at)
            case "reply" | "finished" | "failed" | "cancelled":
                self._end_wait(event.at)
                self._reply(data)
            case "observation" if "pause" not in data:
                self._work("tool", data)

    def _reply(self, data: dict[str, Any]) -> None:
        if isinstance(data.get("s"), int):
            self._step = data["s"]
            self._work("model", data)

    def _work(self, kind: Kind, data: dict[str, Any]) -> None:
        ms = data.get("ms")
        self.found.append(Segment(kind, ms if isinstance(ms, int) else 0, self._step))

    def _end_wait(self, at: int) -> None:
        if self._wait is not None:
            kind, since = self._wait
            self._wait = None
            if at - since >= _TINY_MS or kind == "person":
                self.found.append(Segment(kind, at - since, self._step))

    def close(self, now: int) -> None:
        self._end_wait(now)


def draw(found: Sequence[Segment], width: float = WIDTH) -> Picture:
    """Lay the segments out side by side; a long job's picture grows wider than ``width``."""
    waits = sum(_wait_width(item) for item in found if item.kind not in WORK)
    work = [item for item in found if item.kind in WORK]
    least = _LEAST_WORK * len(work)
    room = max(0.0, width - waits - GAP * len(found) - least)
    whole = sum(item.ms for item in work) or 1
    blocks: list[Block] = []
    x, step = 0.0, 0
    for item in found:
        wide = _LEAST_WORK + room * item.ms / whole if item.kind in WORK else _wait_width(item)
        first = item.step > step and item.kind in WORK
        step = max(step, item.step) if item.kind in WORK else step
        blocks.append(Block(item.kind, item.ms, item.step, round(x, 1), round(wide, 1), first))
        x += wide + GAP
    totals: dict[Kind, int] = {}
    for item in found:
        totals[item.kind] = totals.get(item.kind, 0) + item.ms
    return Picture(blocks, max(width, round(x, 1)), totals)


def _wait_width(item: Segment) -> float:
    return _WAIT if item.ms >= _SHORT_MS or item.kind == "person" else _SHORT_WAIT
