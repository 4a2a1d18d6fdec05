"""``signal`` and its short forms, and ``cancel``: what people decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import failures
from worker.cli.command import command
from worker.cli.inputs import parse_object, read_value, user_name
from worker.cli.looking import JobArgument

if TYPE_CHECKING:
    from worker.cli.session import Session

PauseOption = Annotated[
    str | None, typer.Option(metavar="ID", help="The pause you have looked at, such as p1.")
]
ByOption = Annotated[str | None, typer.Option(help="Who decides.", show_default="your user name")]
NoteOption = Annotated[str, typer.Option(help="Why; stands in the trace.")]
AsJsonOption = Annotated[bool, typer.Option("--as-json", help="It is JSON, not a text.")]
ArgumentsOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="Run it with these arguments instead.")
]

# What the value of each kind of signal is called; "" for kinds that take none.
_VALUES = {
    "answer": "value",
    "approve": "",
    "reject": "reason",
    "extend": "amount",
    "finish": "answer",
    "retry": "",
    "happened": "result",
    "did_not_happen": "",
    "decide": "calls",
    "edit": "message",
    "fail": "reason",
    "cancel": "",
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "signal")(signal)
    command(app, "answer")(answer)
    command(app, "approve")(approve)
    command(app, "reject")(reject)
    command(app, "extend")(extend)
    command(app, "finish")(finish)
    command(app, "retry")(retry)
    command(app, "cancel")(cancel)


def signal(
    session: Session,
    job: JobArgument,
    kind: Annotated[str, typer.Argument(metavar="KIND", help=", ".join(_VALUES) + ".")],
    value: Annotated[
        str | None,
        typer.Argument(metavar="[VALUE]", help="Answer, reason, amount or result; - reads stdin."),
    ] = None,
    as_json: AsJsonOption = False,
    arguments: ArgumentsOption = None,
    pause: PauseOption = None,
    by: ByOption = None,
    note: NoteOption = "",
) -> int:
    """Close a job's pause with a decision. The first one wins."""
    given = _fields(kind, value, as_json)
    if arguments is not None:
        given["arguments"] = parse_object("--arguments", arguments)
    return _send(session, job, given, pause, by, note)


def _fields(kind: str, value: str | None, as_json: bool = False) -> dict[str, Any]:
    """A signal's own fields.

    Raises:
        InvalidInput: an unknown kind, or a value too many.
    """
    from api_client.errors import InvalidInput, shorten

    if kind not in _VALUES:
        raise InvalidInput(f"no signal {shorten(kind)}; give one of {', '.join(_VALUES)}")
    if value is None:
        return {"kind": kind}
    if not _VALUES[kind]:
        raise InvalidInput(f"{kind} takes no value (given: {shorten(value)})")
    return {"kind": kind, _VALUES[kind]: read_value(value, as_json)}


def _send(
    session: Session,
    job: str,
    given: dict[str, Any],
    pause: str | None,
    by: str | None,
    note: str,
) -> int:
    by = user_name() if by is None else by
    session.client.signal(job, {**given, "by": by, "note": note}, pause_id=pause)
    accepted = {"job_id": job, "accepted": given["kind"], "by": by}
    session.out.result(accepted, f"{given['kind']} by {by} accepted; job {job} goes on")
    return failures.OK


def answer(
    session: Session,
    job: JobArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer; - reads stdin.")],
    as_json: AsJsonOption = False,
    pause: PauseOption = None,
    by: ByOption = None,
    note: NoteOption = "",
) -> int:
    """Answer a job's question; the model reads it."""
    return _send(session, job, _fields("answer", text, as_json), pause, by, note)


def approve(
    session: Session,
    job: JobArgument,
    arguments: ArgumentsOption = None,
    pause: PauseOption = None,
    by: ByOption = None,
    note: NoteOption = "",
) -> int:
    """Let the proposed action run."""
    given = {"kind": "approve", "arguments": parse_object("--arguments", arguments)}
    return _send(session, job, given, pause, by, note)


def reject(
    session: Session,
    job: JobArgument,
    reason: Annotated[str, typer.Argument(metavar="REASON", help="The model reads it.")],
    pause: PauseOption = None,
    by: ByOption = None,
    note: NoteOption = "",
) -> int:
    """Forbid the proposed action."""
    return _send(session, job, _fields("reject", reason), pause, by, note)


def extend(
    session: Session,
    job: JobArgument,
    amount: Annotated[
        str, typer.Argument(metavar="AMOUNT", help="Steps, tokens, money, seconds or calls.")
    ],
    pause: PauseOption = None,
    by: ByOption = None,
    note: NoteOption = "",
) -> int:
    """Raise the budget that is used up."""
    return _send(session, job, _fields("extend", amount), pause, by, note)


def finish(
    session: Session,
    job: JobArgument,
    text: Annotated[str, typer.Argument(metavar="ANSWER", help="- reads stdin.")],
    as_json: AsJsonOption = False,
    pause: PauseOption = None,
    by: ByOption = None,
    note: NoteOption = "",
) -> int:
    """End a paused job with this answer."""
    return _send(session, job, _fields("finish", text, as_json), pause, by, note)


def retry(
    session: Session,
    job: JobArgument,
    pause: PauseOption = None,
    by: ByOption = None,
    note: NoteOption = "",
) -> int:
    """Go on; what failed is tried again."""
    return _send(session, job, {"kind": "retry"}, pause, by, note)


def cancel(session: Session, job: JobArgument, by: ByOption = None, note: NoteOption = "") -> int:
    """End a job without an answer: at once, or after the call that is running."""
    by = user_name() if by is None else by
    cancelled = session.client.cancel(job, by=by, note=note)
    value = {"job_id": job, "status": cancelled.status, "pending": cancelled.pending}
    if cancelled.pending:
        text = f"job {job} ends as soon as its running call is over"
    elif cancelled.status == "cancelled":
        text = f"job {job} is cancelled"
    else:
        text = f"job {job} has {cancelled.status} before; nothing was changed"
    session.out.result(value, text)
    return failures.OK if cancelled.pending or cancelled.status == "cancelled" else failures.REFUSED
