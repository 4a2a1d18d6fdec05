"""The gate before every model call: reserve, wait for a moment or send the job away, settle."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from api_client.errors import StoreUnavailable
from worker.flow.base import (
    SOON_MS,
    Ask,
    Granted,
    Ledger,
    Limit,
    Settled,
    TooLarge,
    Verdict,
    Wait,
)
from worker.flow.book import LimitBook
from worker.flow.holds import Holds
from worker.messages import Message, system
from worker.models.base import ModelError, ModelReply, ModelRequest
from worker.telemetry.observer import NOBODY, LimitRefused, LimitWaited, Observer

log = logging.getLogger(__name__)

FIRST_OUTPUT = 500
"""Tokens that a reply is expected to have before a key has brought any."""
CLOSED_WITHOUT_WORD_MS = 1000
"""For how long a 429 closes a key, if the provider does not say."""
AWAY_S = 2.0
"""After which a job asks again, if the store could not be reached."""


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a model is asked.

    Attributes:
        job, tenant: of the job.
        count: estimates tokens of messages.
        elsewhere: keys of other models that would do as well, for which the job may wait too.
    """

    job: str
    tenant: str
    count: Callable[[Iterable[Message]], int]
    elsewhere: tuple[str, ...] = ()


@dataclass(slots=True)
class Entry:
    """One call that is to be made.

    Attributes:
        limit: of its key; without one it passes, and its job waits elsewhere no more.
        elsewhere: as of its caller.
        waited_ms: for how long it has waited here already.
    """

    key: str
    limit: Limit | None
    ask: Ask
    elsewhere: tuple[str, ...] = ()
    part: int = 0
    waited_ms: int = 0
    begun_s: float = field(default_factory=time.monotonic)


class Gate:
    """Lets model calls pass as the limits allow. One for a process, used by all its threads.

    Args:
        book: which limits hold.
        hold_s: as of ``Holds``.
        patience: tries a call of the ledger again while the store is away.
    """

    def __init__(
        self,
        ledger: Ledger,
        book: LimitBook,
        *,
        hold_s: float = 15.0,
        patience: Callable[[Callable[[], Verdict]], Verdict] = lambda call: call(),
        observer: Observer = NOBODY,
    ) -> None:
        self._ledger = ledger
        self._book = book
        self._holds = Holds(ledger, hold_s)
        self._patience = patience
        self._observer = observer
        self._output: dict[str, float] = {}

    @property
    def open(self) -> bool:
        """Whether no model has a limit, so that nothing has to be asked."""
        return self._book.empty

    def limit(self, key: str) -> Limit | None:
        """What limits a model key."""
        return self._book.get(key)

    def entry(self, key: str, limit: Limit | None, caller: Caller, request: ModelRequest) -> Entry:
        """A call with its estimate: the tokens of its input, and those of a usual reply."""
        tokens = 0
        if limit is not None and limit.tpm is not None:
            tools = [system(json.dumps(request.tools))] if request.tools else []
            sent = caller.count([*request.messages, *tools])
            tokens = sent + round(self._output.get(key, FIRST_OUTPUT))
            tokens = tokens if sent > limit.tpm else min(tokens, limit.tpm)
        ask = Ask(uuid.uuid4().hex, caller.job, caller.tenant, tokens)
        return Entry(key, limit, ask, caller.elsewhere)

    def enter(self, entry: Entry) -> None:
        """Return when the call may be made; waits at most a second, in this thread.

        Raises:
            ModelError: with fate ``wait`` if it would take longer; with fate ``pause`` if no wait
                helps.
        """
        while (ms := self._asked(entry)) is not None:
            threading.Event().wait(ms / 1000)

    async def aenter(self, entry: Entry) -> None:
        """The same as ``enter``, on an event loop."""
        while (ms := await asyncio.to_thread(self._asked, entry)) is not None:  # noqa: ASYNC110
            await asyncio.sleep(ms / 1000)

    def _asked(self, entry: Entry) -> int | None:
        """Ask once: ``None`` if the call may be made, else the milliseconds to wait here."""
        verdict = Granted(0) if entry.limit is None else self._verdict(entry, entry.limit)
        match verdict:
            case Granted(part=part):
                entry.part, entry.begun_s = part, time.monotonic()
                if entry.limit is not None:
                    self._holds.add(entry.ask.call, entry.key)
                self.withdraw(entry.ask.job, (k for k in entry.elsewhere if k != entry.key))
                if entry.waited_ms:
                    self._observer.note(LimitWaited(entry.key, entry.waited_ms, here=True))
                return None
            case TooLarge():
                self._observer.note(LimitRefused(entry.key, "too_large"))
                raise _too_large(entry)
            case Wait(ms=ms) if entry.waited_ms + ms <= SOON_MS:
                entry.waited_ms += ms
                return ms
        self._observer.note(LimitWaited(entry.key, verdict.ms, here=False))
        raise _must_wait(entry, verdict)

    def _verdict(self, entry: Entry, limit: Limit) -> Verdict:
        try:
            return self._patience(lambda: self._ledger.reserve(entry.key, limit, entry.ask))
        except StoreUnavailable as error:
            text = f"the limits of {entry.key} cannot be asked for: {error}"
            raise ModelError(text, "wait", AWAY_S, code="limits_away") from error

    def withdraw(self, job: str, keys: Iterable[str]) -> None:
        """A job waits no more for these keys; a store that is away forgets it by and by."""
        try:
            for key in keys:
                self._ledger.withdraw(key, job)
        except StoreUnavailable as error:
            log.warning("job %s: still stands in a queue for a model: %s", job, error)

    def leave(self, entry: Entry, result: ModelReply | BaseException) -> None:
        """The call is over: settle it. A store that is away costs the place until it runs out."""
        if entry.limit is None:
            return
        self._holds.drop(entry.ask.call)
        took_ms = int((time.monotonic() - entry.begun_s) * 1000)
        more = self._more(entry, result)
        settled = Settled(entry.ask.call, entry.part, more, took_ms, _closed_ms(result))
        if settled.close_ms:
            self._observer.note(LimitRefused(entry.key, "provider"))
        try:
            self._ledger.settle(entry.key, settled)
        except StoreUnavailable as error:
            log.warning("a call of %s could not be settled: %s", entry.key, error)

    async def aleave(self, entry: Entry, result: ModelReply | BaseException) -> None:
        """The same as ``leave``, on an event loop; done even if the task is cancelled."""
        await asyncio.shield(asyncio.to_thread(self.leave, entry, result))

    def _more(self, entry: Entry, result: ModelReply | BaseException) -> int:
        """Tokens beyond those reserved. A request that was refused has taken none."""
        if isinstance(result, ModelReply):
            if result.usage is None:
                return 0
            before = self._output.get(entry.key, FIRST_OUTPUT)
            new = result.usage.completion_tokens
            self._output[entry.key] = before + (new - before) / 8
            return result.usage.total - entry.ask.tokens
        refused = isinstance(result, ModelError) and 400 <= (result.status or 0) < 500
        return -entry.ask.tokens if refused else 0

    def call(self, entry: Entry, make: Callable[[], ModelReply]) -> ModelReply:
        """Make a call when it may be made, and settle it.

        Raises:
            ModelError: as ``enter``, and what ``make`` raises.
        """
        self.enter(entry)
        result: ModelReply | BaseException = ModelError("the call was broken off")
        try:
            result = make()
            return result
        except BaseException as error:
            result = error
            raise
        finally:
            self.leave(entry, result)

    async def acall(self, entry: Entry, make: Callable[[], Awaitable[ModelReply]]) -> ModelReply:
        """The same as ``call``, on an event loop."""
        await self.aenter(entry)
        result: ModelReply | BaseException = ModelError("the call was broken off")
        try:
            result = await make()
            return result
        except BaseException as error:
            result = error
            raise
        finally:
            await self.aleave(entry, result)


def _closed_ms(result: ModelReply | BaseException) -> int:
    """For how long a provider wants no other call, from anybody."""
    if not isinstance(result, ModelError) or result.status != 429 or result.fate != "retry":
        return 0
    if result.retry_after is None:
        return CLOSED_WITHOUT_WORD_MS
    return max(1, round(result.retry_after * 1000))


def _must_wait(entry: Entry, wait: Wait) -> ModelError:
    why = (
        "its provider has asked all callers to wait" if wait.closed else "its shared limit is used"
    )
    others = f"; {wait.before} jobs are before this one" if wait.before else ""
    text = f"model {entry.key}: {why}{others}"
    return ModelError(text, "wait", wait.ms / 1000, code="limit")


def _too_large(entry: Entry) -> ModelError:
    text = (
        f"the call needs about {entry.ask.tokens} tokens, and all workers together may use "
        f"{entry.limit.tpm if entry.limit else 0} a minute of {entry.key}: raise it (stepkeeper "
        f"limits set {entry.key} --tpm …), or let the agent show its model less (memory=…)"
    )
    return ModelError(text, "pause", code="limit_too_small")
