"""The inbox: which paused jobs, and in which order."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from api_client.contract import PauseKind
from api_client.errors import InvalidInput, shorten
from api_client.lists import JobFilter, JobPage, check_limit

Order = Literal["oldest", "newest", "deadline"]
"""By the time they have waited; or by deadline, those without one behind all others."""

INBOX = "inbox"
NO_DEADLINE = 4e15

InboxPage = JobPage


class InboxFilter(JobFilter):
    """Which of the paused jobs. What is not given does not matter.

    Attributes:
        label: one of the labels that the pause asks for; ``""`` for pauses that anybody may answer.
        older_than_s: paused for at least so many seconds.
        visible_to: pauses that somebody with these labels may answer.
    """

    kind: PauseKind | None = None
    older_than_s: float | None = Field(default=None, ge=0)

    @property
    def facets(self) -> list[str]:
        """The indexes in each of which a job must stand."""
        more = [] if self.kind is None else [f"kind:{self.kind}"]
        return [*super().facets, *more]


def check_page(order: Any, limit: int) -> None:
    """Refuse an unknown order and a page without a size.

    Raises:
        InvalidInput
    """
    if order not in ("oldest", "newest", "deadline"):
        raise InvalidInput(f"inbox order {shorten(order)}: give oldest, newest or deadline")
    check_limit(INBOX, limit)
