"""Sending decisions: the checks that every way in makes, and decisions about many jobs at once."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from api_client.answers import check_answer
from api_client.contract import SIGNAL, JobView, Pause, Signal
from api_client.errors import Conflict, InvalidInput, JobNotFound, SignalRefused
from api_client.faithful import check_faithful
from api_client.inbox import InboxFilter
from api_client.labels import may_answer
from api_client.lists import Unreadable
from api_client.records import one_line
from api_client.refusals import not_paused, refusal
from api_client.sizes import check_depth, check_size, sizes
from api_client.store import JobStore

PAGE = 200
MAX_MANY = 10_000


def parse_signal(signal: Signal | Mapping[str, Any]) -> Signal:
    """A checked signal.

    Raises:
        SignalRefused: an unknown kind or a wrong form, in one line.
        InvalidInput: it is too long, or holds what JSON cannot carry.
    """
    allowed = sizes()
    given = dict(signal) if isinstance(signal, BaseModel) else signal
    check_depth("signal", given, allowed.max_depth)
    parsed = _parsed(signal)
    check_faithful("signal", parsed)
    text, advice = parsed.model_dump_json(), "store it elsewhere and pass a reference"
    check_size("signal", text, allowed.max_signal_bytes, "max_signal_bytes", advice)
    return parsed


def _parsed(signal: Signal | Mapping[str, Any]) -> Signal:
    given = dict(signal) if isinstance(signal, Mapping) else signal
    try:
        return SIGNAL.validate_python(given)
    except ValidationError as error:
        raise SignalRefused(f"signal: {one_line(error)}") from None


def send_signal(
    store: JobStore,
    job_id: str,
    signal: Signal | Mapping[str, Any],
    *,
    pause_id: str | None = None,
    signal_id: str | None = None,
    labels: Collection[str] | None = None,
) -> JobView:
    """Close a job's open pause; returns the job as it was before. See ``AgentClient.signal``."""
    decision = parse_signal(signal)
    view = store.read(job_id)
    if pause_id is None:
        if view.pause is None:
            raise not_paused(view)
        pause_id = view.pause.id
    if view.pause is not None and view.pause.id == pause_id:
        check_decision(job_id, view.pause, decision, labels)
    store.signal(job_id, pause_id, decision, signal_id or uuid.uuid4().hex, labels)
    return view


def check_decision(
    job_id: str, pause: Pause, signal: Signal, labels: Collection[str] | None = None
) -> None:
    """Refuse a signal that an open pause cannot take, or not from this person.

    Raises:
        NotAllowed, SignalRefused
    """
    if not may_answer(pause.labels, labels):
        wanted = ", ".join(pause.labels)
        raise refusal(job_id, pause.id, signal.kind, "not_allowed", wanted)
    proposed = len(pause.actions) or 1
    check_answer(job_id, pause.accepts, pause.answer_schema, signal, proposed)


@dataclass(frozen=True, slots=True)
class ManyItem:
    """What became of one job of many.

    Attributes:
        done: the decision was accepted; in a dry run: it would be.
        error: why not.
    """

    job_id: str
    pause_id: str
    done: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class ManyReport:
    """What became of a decision about many jobs.

    Attributes:
        dry_run: nothing was sent.
        more: there are more jobs than were looked at.
    """

    items: tuple[ManyItem, ...]
    dry_run: bool
    more: bool = False

    @property
    def done(self) -> int:
        """How many jobs took it, or would."""
        return sum(item.done for item in self.items)

    @property
    def refused(self) -> int:
        """How many did not."""
        return len(self.items) - self.done


def send_many(
    store: JobStore,
    chosen: InboxFilter,
    signal: Signal,
    *,
    dry_run: bool,
    limit: int,
    labels: Collection[str] | None,
    signal_id: str,
) -> tuple[ManyReport, list[JobView]]:
    """Decide many pauses in the same way; also returns the jobs that took it.

    Raises:
        InvalidInput: the limit.
    """
    if not 1 <= limit <= MAX_MANY:
        raise InvalidInput(f"limit {limit}: give 1 to {MAX_MANY}")
    if labels is not None:
        chosen = chosen.model_copy(update={"visible_to": tuple(labels)})
    views, broken = _found(store, chosen, limit + 1)
    items = [ManyItem(one.job_id, "", done=False, error=one.reason) for one in broken]
    taken = []
    for view in views[:limit]:
        assert view.pause is not None
        error = _send_one(store, view, view.pause, signal, dry_run, labels, signal_id)
        items.append(ManyItem(view.job_id, view.pause.id, done=not error, error=error))
        if not error:
            taken.append(view)
    return ManyReport(tuple(items), dry_run, more=len(views) > limit), taken


def _found(
    store: JobStore, chosen: InboxFilter, limit: int
) -> tuple[list[JobView], list[Unreadable]]:
    """Paused jobs over all pages, the longest waiting first; and those that cannot be read."""
    found: list[JobView] = []
    broken: list[Unreadable] = []
    cursor = ""
    while len(found) < limit:
        page = store.inbox(chosen, limit=min(PAGE, limit - len(found)), cursor=cursor)
        found += page
        broken += page.unreadable
        cursor = page.next_cursor
        if not cursor:
            break
    return found, broken


def _send_one(
    store: JobStore,
    view: JobView,
    pause: Pause,
    signal: Signal,
    dry_run: bool,
    labels: Collection[str] | None,
    signal_id: str,
) -> str:
    """Why one job did not take the signal; empty if it did."""
    try:
        check_decision(view.job_id, pause, signal, labels)
        if not dry_run:
            store.signal(view.job_id, pause.id, signal, signal_id, labels)
    except (Conflict, JobNotFound) as error:
        return str(error)
    return ""
