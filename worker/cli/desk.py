"""``message``, ``pause``, ``edit``, ``bulk``, ``watch``, ``deliveries``, ``events``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import failures
from worker.cli.command import command
from worker.cli.deciding import AsJsonOption, ByOption, NoteOption, PauseOption, _fields, _send
from worker.cli.inputs import parse_object, read_text, user_name
from worker.cli.looking import (
    AgentOption,
    JobArgument,
    KindOption,
    LabelOption,
    LimitOption,
    OlderOption,
    TenantOption,
    filter_of,
)

if TYPE_CHECKING:
    from worker.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "message")(message)
    command(app, "pause")(pause)
    command(app, "edit")(edit)
    command(app, "fail")(fail)
    command(app, "bulk", epilog=_BULK)(bulk)
    command(app, "watch")(watch)
    command(app, "events")(events)
    command(app, "deliveries")(deliveries)


# --- telling a job -------------------------------------------------------------------------


def message(
    session: Session,
    job: JobArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The model reads it; - is stdin.")],
    by: ByOption = None,
    note: NoteOption = "",
) -> int:
    """Tell a job something: the model reads it before its next reply."""
    by = user_name() if by is None else by
    session.client.message(job, read_text(text), by=by, note=note)
    session.out.result({"job_id": job, "by": by}, f"job {job} reads it before its next step")
    return failures.OK


def pause(session: Session, job: JobArgument, by: ByOption = None, note: NoteOption = "") -> int:
    """Pause a job after the call that is running; `stepkeeper retry` lets it go on."""
    by = user_name() if by is None else by
    session.client.pause(job, by=by, note=note)
    session.out.result({"job_id": job, "by": by}, f"job {job} pauses at its next step")
    return failures.OK


def edit(
    session: Session,
    job: JobArgument,
    text: Annotated[
        str, typer.Argument(metavar="[MESSAGE]", help="For the model; - reads stdin.")
    ] = "",
    answers: Annotated[
        str | None,
        typer.Option(metavar="JSON", help='What the model reads of open calls: {"CALL": "TEXT"}.'),
    ] = None,
    pause: PauseOption = None,
    by: ByOption = None,
    note: NoteOption = "",
) -> int:
    """Take a paused job over: answer its open calls yourself, tell the model something."""
    given = {
        "kind": "edit",
        "message": read_text(text),
        "answers": parse_object("--answers", answers) or {},
    }
    return _send(session, job, given, pause, by, note)


def fail(
    session: Session,
    job: JobArgument,
    reason: Annotated[str, typer.Argument(metavar="REASON", help="Why; - reads stdin.")],
    pause: PauseOption = None,
    by: ByOption = None,
    note: NoteOption = "",
) -> int:
    """End a paused job as failed."""
    return _send(session, job, _fields("fail", reason), pause, by, note)


# --- many jobs -----------------------------------------------------------------------------

_BULK = "For example: stepkeeper bulk reject 'too old' --kind approval --older-than 86400 --yes"


def bulk(
    session: Session,
    kind_of_signal: Annotated[
        str, typer.Argument(metavar="SIGNAL", help="answer, approve, reject, cancel, …")
    ],
    value: Annotated[
        str | None,
        typer.Argument(metavar="[VALUE]", help="Answer, reason, amount or result; - reads stdin."),
    ] = None,
    as_json: AsJsonOption = False,
    agent: AgentOption = None,
    label: LabelOption = None,
    kind: KindOption = None,
    tenant: TenantOption = None,
    older_than: OlderOption = None,
    limit: LimitOption = 1000,
    dry_run: Annotated[
        bool, typer.Option("--dry-run/--yes", help="Only say what would happen; --yes does it.")
    ] = True,
    by: ByOption = None,
    note: NoteOption = "",
) -> int:
    """Decide many pauses in the same way, and say what became of each."""
    by = user_name() if by is None else by
    signal = {**_fields(kind_of_signal, value, as_json), "by": by, "note": note}
    chosen = filter_of(agent, label, kind, tenant, older_than)
    report = session.client.signal_many(chosen, signal, dry_run=dry_run, limit=limit)
    return _report(session, report)


def _report(session: Session, report: Any) -> int:
    from dataclasses import asdict

    from worker.cli.tables import many_listing

    did, did_not = ("would take it", "would not") if report.dry_run else ("took it", "did not")
    rest = "; there are more: raise --limit" if report.more else ""
    rest += "; nothing was done: --yes does it" if report.dry_run else ""
    session.out.result(
        asdict(report), many_listing(report.items) if report.items else "no such job"
    )
    session.out.note(f"stepkeeper: {report.done} {did}, {report.refused} {did_not}{rest}")
    return failures.REFUSED if report.refused else failures.OK


# --- following -----------------------------------------------------------------------------


def watch(session: Session, job: JobArgument) -> int:
    """A job's trace from its beginning, and live until it has ended."""
    from worker.cli.looking import trace

    return trace(session, job, follow=True)


def events(
    session: Session,
    after: Annotated[
        str, typer.Option(metavar="CURSOR", help="Behind this event; '' for all that are kept.")
    ] = "$",
    for_s: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0.0, help="Then end.")
    ] = None,
) -> int:
    """What happens to all jobs, as it happens: paused, resumed, finished, …"""
    from worker.cli.tables import event_line

    for event in session.client.follow(after, for_s=for_s):
        session.out.result(event.model_dump(mode="json"), event_line(event))
    return failures.OK


def deliveries(
    session: Session,
    job: Annotated[
        str, typer.Argument(metavar="[JOB]", help="Of one job; the latest of all, if not given.")
    ] = "",
    limit: LimitOption = 50,
) -> int:
    """How far webhooks and other announcements have come, the newest first."""
    from worker.cli.tables import deliveries_listing

    found = session.client.deliveries(job, limit)
    values = [delivery.model_dump(mode="json") for delivery in found]
    session.out.result(values, deliveries_listing(found) if found else "nothing was announced")
    return failures.OK
