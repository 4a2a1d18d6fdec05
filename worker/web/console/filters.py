"""What visitors choose in the forms above lists, and the addresses that say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar
from urllib.parse import urlencode

from fastapi import Depends, Query

from api_client.contract import PauseKind
from api_client.inbox import InboxFilter, Order
from api_client.lists import JobFilter
from worker.web.problems import Problem

AGES = ("3600", "86400", "604800")
ORDERS: tuple[Order, ...] = ("oldest", "newest", "deadline")
LISTS = ("running", "waiting", "queued", "failed", "poison", "succeeded", "cancelled")

AgentField = Annotated[str, Query(max_length=64)]
LabelField = Annotated[str, Query(max_length=100)]
CursorField = Annotated[str, Query(max_length=500)]


def address(path: str, **fields: str) -> str:
    """An address with those of the fields that say something."""
    query = urlencode({name: value for name, value in fields.items() if value})
    return f"{path}?{query}" if query else path


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is chosen above a list; ``""``: everything.

    Attributes:
        PATH: of the list.
        FIELDS: those of the form that leave something out.
        FIRST: the order in which the list comes if none is chosen.
    """

    PATH: ClassVar[str]
    FIELDS: ClassVar[tuple[str, ...]]
    FIRST: ClassVar[str]

    agent: str = ""
    label: str = ""
    order: str = ""
    cursor: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """What is chosen, by the names of the form's fields."""
        return {name: getattr(self, name) for name in self.FIELDS}

    @property
    def chosen(self) -> bool:
        """Whether anything is left out."""
        return any(self.fields.values())

    @property
    def kept(self) -> dict[str, str]:
        """What each page of the list has in its address besides."""
        return {}

    def address(self, cursor: str = "") -> str:
        """The address of a page of it."""
        order = "" if self.order == self.FIRST else self.order
        return address(self.PATH, **self.kept, **self.fields, order=order, cursor=cursor)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxChoice(Chosen):
    """What is chosen in the inbox, and of what is decided at once."""

    PATH: ClassVar[str] = "/inbox"
    FIELDS: ClassVar[tuple[str, ...]] = ("agent", "label", "kind", "age")
    FIRST: ClassVar[str] = "oldest"

    kind: str = ""
    age: str = ""

    def wanted(self) -> InboxFilter:
        """The same as the store wants it."""
        return InboxFilter(
            agent=self.agent or None,
            label=self.label or None,
            kind=PauseKind(self.kind) if self.kind in tuple(PauseKind) else None,
            older_than_s=float(self.age) if self.age in AGES else None,
        )

    @property
    def sorted_by(self) -> Order:
        """The order; the first, if there is none of that name."""
        return next((one for one in ORDERS if one == self.order), ORDERS[0])

    def bulk(self) -> str:
        """Where all that is chosen is decided at once."""
        return address("/bulk", **self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListChoice(Chosen):
    """What is chosen in the list of one status, or in the quarantine."""

    PATH: ClassVar[str] = "/jobs"
    FIELDS: ClassVar[tuple[str, ...]] = ("agent", "label", "tenant")
    FIRST: ClassVar[str] = "newest"

    status: str = LISTS[0]
    tenant: str = ""

    def wanted(self) -> JobFilter:
        """The same as the store wants it."""
        return JobFilter(
            agent=self.agent or None, label=self.label or None, tenant=self.tenant or None
        )

    @property
    def newest_first(self) -> bool:
        """The order; the quarantine is worked off, everything else is looked at."""
        return self.order != "oldest"

    @property
    def kept(self) -> dict[str, str]:
        """See ``Chosen``."""
        return {"status": self.status}


def _common(
    agent: AgentField = "", label: LabelField = "", order: str = "", cursor: CursorField = ""
) -> dict[str, str]:
    """The fields that every such form has."""
    return {"agent": agent, "label": label, "order": order, "cursor": cursor}


_Common = Annotated[dict[str, str], Depends(_common)]


def _inbox_choice(common: _Common, kind: str = "", age: str = "") -> InboxChoice:
    return InboxChoice(**common, kind=kind, age=age)


def _list_choice(common: _Common, status: str = LISTS[0], tenant: LabelField = "") -> ListChoice:
    """Raises ``Problem``: there is no such list."""
    if status not in LISTS:
        raise Problem(404, "not-found", "there is no such list")
    return ListChoice(**common, status=status, tenant=tenant)


InboxChoiceHere = Annotated[InboxChoice, Depends(_inbox_choice)]
ListChoiceHere = Annotated[ListChoice, Depends(_list_choice)]
