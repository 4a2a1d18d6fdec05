"""What a limit is, and what a ledger of all workers' calls promises.

Before a call a worker reserves: one request, the tokens that it will probably take, a place in
flight. After it, it settles with what the call has really used. The ledger never grants more than
the limit; whoever has to wait is given a place in a queue, and a time of its own to ask again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ConfigDict, Field, ValidationError, model_validator

from api_client.errors import InvalidInput, shorten
from api_client.records import one_line
from api_client.shapes import Contract

KEY_PATTERN = re.compile(r"[A-Za-z0-9_.:/@+-]{1,200}")
_NOT_IN_KEY = re.compile(r"[^A-Za-z0-9_.:/@+-]")

SLICES = 60
"""Parts of the minute in which use is counted; an old part is forgotten as a whole."""
SOON_MS = 1000
"""Whoever has to wait for less stays on its thread; places before others are kept as long."""
LATE_MS = 3000
"""For so long after its time a place in the queue is kept free; then others go first."""
KEPT_MS = 60_000
"""For so long after its time a place in the queue is remembered at all."""
LOOKED_AT = 100
"""How many of those who wait before a caller are looked at one by one."""


class Limit(Contract):
    """What all workers together may ask of one model. ``None`` is no limit.

    Attributes:
        rpm: requests a minute.
        tpm: tokens a minute, input and output.
        in_flight: calls at once.
    """

    model_config = ConfigDict(extra="forbid")

    rpm: int | None = Field(default=None, ge=1, le=10**9)
    tpm: int | None = Field(default=None, ge=1, le=10**12)
    in_flight: int | None = Field(default=None, ge=1, le=10**6)

    @model_validator(mode="after")
    def _limits_something(self) -> Limit:
        if self.rpm is None and self.tpm is None and self.in_flight is None:
            raise ValueError("a limit names at least one of rpm, tpm and in_flight")
        return self


def checked_limit(key: str, values: Mapping[str, Any]) -> Limit:
    """A limit of a model key.

    Raises:
        InvalidInput: names the key, the field, the value and what is wrong.
    """
    checked_key(key)
    try:
        return Limit.model_validate(dict(values))
    except ValidationError as error:
        raise InvalidInput(f"limit of {key}: {one_line(error)}") from None


def checked_key(key: str) -> str:
    """A model key.

    Raises:
        InvalidInput: it has another form.
    """
    if not KEY_PATTERN.fullmatch(key):
        raise InvalidInput(
            f"model key {shorten(key)}: 1 to 200 of the characters A-Z a-z 0-9 _ . : / @ + -; "
            "by default it is HOST/MODEL, such as api.openai.com/gpt-5"
        )
    return key


def limit_key(model: Any) -> str:
    """The key under which a model's limits stand: its ``limit_key``, or else its name."""
    given = getattr(model, "limit_key", None) or getattr(model, "name", "")
    return _NOT_IN_KEY.sub("_", str(given))[:200] or "unnamed"


@dataclass(frozen=True, slots=True)
class Ask:
    """A call that a worker wants to make.

    Attributes:
        call: names this very call; asked again with it, a call that was granted stays granted.
        job: whose place in the queue it is.
        tenant: on whose behalf; tenants take turns.
        tokens: that it will probably take, input and output.
    """

    call: str
    job: str
    tenant: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Granted:
    """The call may be made. ``part`` is the part of the minute in which it is counted."""

    part: int


@dataclass(frozen=True, slots=True)
class Wait:
    """The call must wait: ask again in ``ms``. ``before``: how many others have their turn first.

    ``closed``: the provider has asked everybody to wait.
    """

    ms: int
    before: int
    closed: bool = False


@dataclass(frozen=True, slots=True)
class TooLarge:
    """No wait helps: the call takes more tokens than a whole minute allows."""


Verdict = Granted | Wait | TooLarge


@dataclass(frozen=True, slots=True)
class Settled:
    """What a call has come to.

    Attributes:
        call: as in ``Ask``.
        part: as in ``Granted``.
        more: tokens that it took beyond those that were reserved; negative if fewer.
        took_ms: how long it took.
        close_ms: for how long the provider wants no other call; 0 if it did not say.
    """

    call: str
    part: int
    more: int
    took_ms: int
    close_ms: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """A key as it stands now.

    Attributes:
        requests, tokens: of the last minute.
        in_flight: calls that are being made.
        waiting: jobs in the queue.
        closed_ms: for how long the provider still wants no call.
        waits: how often a call had to wait, since the key was used first.
        too_large: tokens of the largest call that no wait could have helped; 0 if there was none.
    """

    requests: int = 0
    tokens: int = 0
    in_flight: int = 0
    waiting: int = 0
    closed_ms: int = 0
    waits: int = 0
    too_large: int = 0


class Ledger(Protocol):
    """Counts the calls of all workers. Each method may raise ``StoreUnavailable``."""

    def reserve(self, key: str, limit: Limit, ask: Ask) -> Verdict:
        """Ask for a call. Granted at most as the limit allows in any minute."""

    def settle(self, key: str, settled: Settled) -> None:
        """A granted call is over; the same again changes nothing."""

    def renew(self, key: str, calls: list[str]) -> None:
        """These calls are still being made; one that is not renewed for a hold's time is over."""

    def withdraw(self, key: str, job: str) -> None:
        """A job does not wait for this key any more."""

    def use(self, key: str) -> Use:
        """How a key stands."""

    def limits(self) -> dict[str, Limit]:
        """The limits that were set at run time, by key."""

    def set_limit(self, key: str, limit: Limit | None) -> bool:
        """Set a key's limit, or with ``None`` forget it; returns whether there was one."""
