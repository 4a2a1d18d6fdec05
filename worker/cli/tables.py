"""Tables that people read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from api_client.contract import AgentInfo, Delivery, JobEvent, JobView
from api_client.deciding import ManyItem
from worker.rendering.printer import STATUS_STYLES, local_time
from worker.rendering.texts import (
    about,
    clean,
    duration,
    excerpt,
    how_to_answer,
    node_of,
    plain,
    totals,
)

NARROW = 80
"""Columns below which a table would cut ids and sentences into strips."""


def status_table(view: JobView, options: str = "") -> Table:
    """Where one job stands, one line a fact; ``options`` are those of the commands in it."""
    return facts_table(_facts(view, options))


def _facts(view: JobView, options: str) -> dict[str, str | Text]:
    facts: dict[str, str | Text] = {
        "job": view.job_id,
        "status": _status(view),
        "agent": view.spec.agent,
        "parent": view.spec.parent,
        "sub-jobs": "\n".join(view.children),
        "tenant": view.spec.tenant,
        "labels": ", ".join(view.spec.labels),
        "task": excerpt(plain(view.spec.input), 3, 300),
        "created": local_time(view.created),
        "worker": node_of(view.worker) if view.worker else "",
        "due": local_time(view.due) if view.due else "",
        "used": totals(view),
    }
    return {**facts, **_pause_facts(view, options), **_end_facts(view)}


def _status(view: JobView) -> Text:
    text = Text(view.status, STATUS_STYLES.get(view.status, "bold"))
    wanted = view.cancel_requested and not view.status.ended
    return text.append(" (a cancel is wanted)", "not bold") if wanted else text


def _pause_facts(view: JobView, options: str) -> dict[str, str | Text]:
    pause = view.pause
    if pause is None:
        return {}
    return {
        "waits for": f"a person since {local_time(pause.created)} ({pause.kind}, {pause.id})",
        "question": pause.question,
        "about": about(pause),
        "answer with": "\n".join(how_to_answer(view, options)),
    }


def _end_facts(view: JobView) -> dict[str, str | Text]:
    outcome = view.outcome
    if outcome is None:
        return {}
    if outcome.ok:
        return {"answer": plain(outcome.value)}
    return {"reason": f"{outcome.text} [{outcome.reason}]"}


def inbox_listing(views: Sequence[JobView]) -> Listing:
    """Who waits for what, and since when."""
    now = _now_ms()
    rows = [
        (
            view.job_id,
            view.spec.agent,
            duration(max(0, now - view.pause.created)),
            str(view.pause.kind),
            excerpt(view.pause.question, 3, 300),
        )
        for view in views
        if view.pause is not None
    ]
    return Listing(("job", "agent", "waits", "for", "question"), rows)


def many_listing(items: Sequence[ManyItem]) -> Listing:
    """What became of each job of many."""
    rows = [(item.job_id, item.pause_id, "yes" if item.done else item.error) for item in items]
    return Listing(("job", "pause", "taken"), rows)


def deliveries_listing(deliveries: Sequence[Delivery]) -> Listing:
    """Announcements, one a line."""
    rows = [
        (
            one.id,
            one.event,
            one.channel,
            one.state,
            str(one.tries),
            local_time(one.at),
            one.error or (f"again at {local_time(one.due)}" if one.due else ""),
        )
        for one in deliveries
    ]
    columns = ("announcement", "event", "by", "state", "attempts", "happened", "why")
    return Listing(columns, rows)


def event_line(event: JobEvent) -> str:
    """One event of one of all jobs."""
    data = " ".join(f"{name}={plain(value)}" for name, value in event.data.items())
    return clean(f"{local_time(event.at)}  {event.event:<9} {event.agent} {event.job_id} {data}")


def jobs_listing(views: Sequence[JobView]) -> Listing:
    """Jobs, one a line."""
    rows = [
        (
            view.job_id,
            view.spec.agent,
            local_time(view.created),
            str(view.steps),
            excerpt(plain(view.spec.input), 1, 60),
        )
        for view in views
    ]
    return Listing(("job", "agent", "created", "steps", "task"), rows)


def agents_listing(infos: Sequence[AgentInfo]) -> Listing:
    """Agents, one a line."""
    now = _now_ms()
    rows = [
        (
            info.name,
            info.version,
            info.queue,
            f"{duration(max(0, now - info.seen))} ago",
            excerpt(info.description, 1, 120),
        )
        for info in infos
    ]
    return Listing(("agent", "version", "queue", "announced", "description"), rows)


def count_table(counts: Mapping[str, int]) -> Table:
    """How many jobs there are in each status."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right")
    for status, count in counts.items():
        table.add_row(status, f"{count:,}")
    return table


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows under column names; in a narrow window one cell a line."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A table, or its rows one below the other."""
        if options.max_width >= NARROW:
            yield self._table()
            return
        for row in self.rows:
            yield self._stacked(row)
            yield Text()

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for number, name in enumerate(self.columns):
            table.add_column(name, overflow="fold", no_wrap=number == 0)
        for row in self.rows:
            table.add_row(*map(clean, row))
        return table

    def _stacked(self, row: Sequence[str]) -> Table:
        return facts_table(dict(zip(self.columns, row, strict=True)))


def facts_table(facts: Mapping[str, str | Text]) -> Table:
    """Names and values, one a line; empty values are left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value:
            table.add_row(name, value if isinstance(value, Text) else clean(value))
    return table


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
