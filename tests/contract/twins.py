"""Two stores behind one front: every call goes to both, and both must give the same answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import Any, cast

from pydantic import BaseModel

from api_client.contract import Event
from tests.contract.worlds import World
from worker.store.base import CheckpointStore, NotClaimed

_UNORDERED = ("sweep", "abandon", "list_jobs")
"""With partitions these are in the order of their keys; times that were equal no longer are."""

_MOMENTS = ("created", "due", "at", "seen", "deadline", "waited_ms")


class TwinWorld(World):
    """Two worlds in which the same things happen."""

    def __init__(self, one: World, other: World) -> None:
        self.name = f"{one.name} beside {other.name}"
        self.partitions = max(one.partitions, other.partitions)
        self._worlds = (one, other)
        self.store = cast("CheckpointStore", _TwinStore(one.store, other.store))

    def advance(self, ms: int) -> None:
        """See ``World.advance``."""
        for world in self._worlds:
            world.advance(ms)

    def raw(self, job_id: str) -> Any:
        """See ``World.raw``."""
        return [world.raw(job_id) for world in self._worlds]

    def due_in(self, job_id: str) -> int | None:
        """See ``World.due_in``; the two may differ by the time that the test itself takes."""
        one, other = (world.due_in(job_id) for world in self._worlds)
        assert (one is None) == (other is None), f"{job_id} is due in {one} and {other}"
        assert one is None or other is None or abs(one - other) < 15_000, (one, other)
        return one

    def places(self, job_id: str) -> list[str]:
        """See ``World.places``."""
        one, other = (world.places(job_id) for world in self._worlds)
        assert one == other, f"{job_id} stands in {one} and {other}"
        return one

    def turn(self, job_id: str) -> str:
        """See ``World.turn``."""
        one, other = (world.turn(job_id) for world in self._worlds)
        assert one == other, f"the turn of {job_id} is {one!r} and {other!r}"
        return one

    def turn_counts(self) -> dict[str, int]:
        """See ``World.turn_counts``."""
        one, other = (world.turn_counts() for world in self._worlds)
        assert one == other
        return one

    def lease_left(self, job_id: str) -> int:
        """See ``World.lease_left``."""
        one, other = (world.lease_left(job_id) for world in self._worlds)
        assert (one > 0) == (other > 0), f"the lease of {job_id} has {one} and {other} left"
        return one

    def left_behind(self) -> list[str]:
        """See ``World.left_behind``."""
        return [name for world in self._worlds for name in world.left_behind()]


class _TwinStore:
    def __init__(self, one: CheckpointStore, other: CheckpointStore) -> None:
        self._stores = (one, other)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            one, other = (_answer(getattr(store, name), args, kwargs) for store in self._stores)
            told, told_by_other = _comparable(one), _comparable(other)
            if name in _UNORDERED:
                told, told_by_other = sorted(told, key=repr), sorted(told_by_other, key=repr)
            assert told == told_by_other, f"{name}: {told!r} against {told_by_other!r}"
            if isinstance(one, Exception):
                raise one
            return one

        return call


def _answer(method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a call returns, or what it raises: both are answers, and both are compared."""
    try:
        return method(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - raised again when it has been compared
        return error


def _comparable(value: Any) -> Any:
    """An answer without moments, which differ."""
    if isinstance(value, Exception):
        return type(value), re.sub(r"\d{4}-\d\d-\d\d [\d:]+ UTC", "then", str(value))
    if isinstance(value, Event):
        return value.kind, value.data
    if isinstance(value, NotClaimed) and value.why == "not_due":
        return "not_due"
    if isinstance(value, BaseModel):
        return _comparable(value.model_dump())
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), _comparable(asdict(value))
    if isinstance(value, dict):
        return {k: v is None if k in _MOMENTS else _comparable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_comparable(item) for item in value]
    return value
