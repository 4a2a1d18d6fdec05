"""The inbox: which paused jobs, in which order, and where a page goes on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from pydantic import Field

from api_client.contract import JobView, PauseKind
from api_client.errors import InvalidInput, shorten
from api_client.shapes import Contract

Order = Literal["oldest", "newest", "deadline"]
"""By the time they have waited; or by deadline, those without one behind all others."""

NO_DEADLINE = 4e15


class InboxFilter(Contract):
    """Which of the paused jobs. What is not given does not matter.

    Attributes:
        label: one of the labels that the pause asks for; ``""`` for pauses that anybody may answer.
        older_than_s: paused for at least so many seconds.
        visible_to: pauses that somebody with these labels may answer.
    """

    agent: str | None = None
    label: str | None = None
    kind: PauseKind | None = None
    tenant: str | None = None
    older_than_s: float | None = Field(default=None, ge=0)
    visible_to: tuple[str, ...] | None = None

    @property
    def facets(self) -> list[str]:
        """The indexes in each of which a job must stand."""
        given = {
            "agent": self.agent,
            "label": self.label,
            "kind": self.kind,
            "tenant": self.tenant,
        }
        return [f"{name}:{value}" for name, value in given.items() if value is not None]

    @property
    def any_of(self) -> list[str]:
        """The indexes in one of which a job must stand; every job does if there are none."""
        if self.visible_to is None:
            return []
        return [f"label:{label}" for label in sorted({"", *self.visible_to})]


@dataclass(frozen=True, slots=True)
class InboxPage(Sequence[JobView]):
    """Some of the paused jobs.

    Attributes:
        items: of this page.
        next_cursor: gives the next page; empty if this is the last.
        total: how many there are at most; exact unless several conditions are combined.
    """

    items: tuple[JobView, ...]
    next_cursor: str = ""
    total: int = 0

    @overload
    def __getitem__(self, index: int) -> JobView: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[JobView, ...]: ...
    def __getitem__(self, index: int | slice) -> JobView | tuple[JobView, ...]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[JobView]:
        return iter(self.items)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a job stands in an order: its time (ms), and its id among those of one time."""

    score: float
    job_id: str

    def cursor(self, order: Order) -> str:
        """The place as an opaque text."""
        text = json.dumps([order, self.score, self.job_id])
        return base64.urlsafe_b64encode(text.encode()).decode()


def read_cursor(cursor: str, order: Order) -> Place | None:
    """The place behind which a page begins; ``None`` for the first page.

    Raises:
        InvalidInput: it is no cursor, or one of another order.
    """
    if not cursor:
        return None
    try:
        made_for, score, job_id = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        place = Place(float(score), str(job_id))
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"inbox cursor {shorten(cursor)}: give one as it was read") from error
    if made_for != order:
        raise InvalidInput(f"inbox cursor: it belongs to the order {made_for!r}, not {order!r}")
    return place


def check_page(order: Any, limit: int) -> None:
    """Refuse an unknown order and a page without a size.

    Raises:
        InvalidInput
    """
    if order not in ("oldest", "newest", "deadline"):
        raise InvalidInput(f"inbox order {shorten(order)}: give oldest, newest or deadline")
    if limit < 1:
        raise InvalidInput(f"inbox limit {limit}: give 1 or more")
