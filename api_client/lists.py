"""Lists of jobs: which, in which order, and where a page goes on."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from api_client.contract import JobStatus, JobView
from api_client.errors import InvalidInput, shorten
from api_client.shapes import Contract

POISON = "poison"
ListName = JobStatus | Literal["poison"]
"""A status; or the failed jobs that are in quarantine."""


class JobFilter(Contract):
    """Which jobs of a list. What is not given does not matter.

    Attributes:
        label: one of the job's labels; ``""`` for jobs without any.
        visible_to: jobs without labels, and those that have one of these.
    """

    agent: str | None = None
    label: str | None = None
    tenant: str | None = None
    visible_to: tuple[str, ...] | None = None

    @property
    def facets(self) -> list[str]:
        """The indexes in each of which a job must stand."""
        given = {"agent": self.agent, "label": self.label, "tenant": self.tenant}
        return [f"{name}:{value}" for name, value in given.items() if value is not None]

    @property
    def any_of(self) -> list[str]:
        """The indexes in one of which a job must stand; every job does if there are none."""
        if self.visible_to is None:
            return []
        return [f"label:{label}" for label in sorted({"", *self.visible_to})]


EVERY = JobFilter()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A job whose record this program cannot read.

    Attributes:
        reason: what is wrong with it, in one line.
    """

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobPage(Sequence[JobView]):
    """Some of the jobs of a list.

    Attributes:
        items: of this page.
        next_cursor: gives the next page; empty if this is the last.
        total: how many there are at most; exact unless several conditions are combined.
        unreadable: jobs of this page whose records were written by hand or by a newer version.
    """

    items: tuple[JobView, ...]
    next_cursor: str = ""
    total: int = 0
    unreadable: tuple[Unreadable, ...] = ()

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


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the next page begins.

    Attributes:
        place: behind this job; ``None``: at the beginning.
        until: only what was there at this time (ms), when the first page was read. A job that
            leaves the list and comes back while its pages are read is not met a second time.
    """

    place: Place | None = None
    until: int | None = None


def write_cursor(name: str, order: str, place: Place, until: int | None = None) -> str:
    """A place as an opaque text."""
    fields = [name, order, place.score, place.job_id, until]
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()


def read_cursor(cursor: str, name: str, order: str) -> Mark:
    """The mark in a cursor; that of the first page for ``""``.

    Args:
        name, order: of the list that is to go on.

    Raises:
        InvalidInput: it is no cursor, or one of another list.
    """
    if not cursor:
        return Mark()
    try:
        made_for, made_in, score, job_id, until = json.loads(
            base64.b64decode(cursor.encode(), b"-_", validate=True)
        )
        if not math.isfinite(score):
            raise ValueError(score)
        mark = Mark(Place(float(score), str(job_id)), None if until is None else int(until))
    except (ValueError, TypeError, OverflowError, binascii.Error) as error:
        raise InvalidInput(f"{name} cursor {shorten(cursor)}: give one as it was read") from error
    if (made_for, made_in) != (name, order):
        raise InvalidInput(
            f"{name} cursor: it belongs to '{made_for}' in the order '{made_in}', "
            f"not to '{name}' in the order '{order}'"
        )
    return mark


def check_limit(name: str, limit: int) -> None:
    """Refuse a page without a size.

    Raises:
        InvalidInput
    """
    if limit < 1:
        raise InvalidInput(f"{name} limit {limit}: give 1 or more")


def list_name(value: Any) -> ListName:
    """The list of this name.

    Raises:
        InvalidInput: there is none.
    """
    if value == POISON:
        return "poison"
    try:
        return JobStatus(value)
    except ValueError:
        known = ", ".join((*JobStatus, POISON))
        raise InvalidInput(f"status {shorten(value)}: give one of {known}") from None


def status_of(name: ListName) -> JobStatus:
    """The status of the jobs of a list."""
    return JobStatus.FAILED if name == POISON else JobStatus(name)


def order_name(newest_first: bool) -> str:
    """What the order of a list is called."""
    return "newest" if newest_first else "oldest"
