"""Functions whose annotations are texts, as ``from __future__ import annotations`` makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Optional

from pydantic import BaseModel

if TYPE_CHECKING:
    from decimal import Decimal


class Place(BaseModel):
    """Where."""

    city: str
    zip: str | None = None


def forecast(
    place: Place,
    days: Optional[int] = None,  # noqa: UP045 - this spelling must work as well
    unit: Literal["C", "F"] = "C",
) -> str:
    return f"{place.city} {days} {unit}"


def only_while_checking(amount: Decimal) -> str:
    return str(amount)


def local_class() -> Callable[..., str]:
    class Local(BaseModel):
        x: int

    def use(x: int, item: Local) -> str:
        return f"{x} {item}"

    return use
