"""``submit``: hand in a job, and wait for it if asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import failures
from worker.cli.command import command
from worker.cli.inputs import parse_object, read_value

if TYPE_CHECKING:
    from api_client.contract import JobView
    from worker.cli.session import Session


_GOES_ON = "stepkeeper: job {job} {state}; see: stepkeeper trace {job} --follow"


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "submit", epilog=failures.EXIT_CODES)(submit)


def submit(
    session: Session,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The task; - reads it from stdin.")],
    as_json: Annotated[
        bool, typer.Option("--as-json", help="TEXT is a JSON value, not a text.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Show the trace on stderr and print the answer on stdout."),
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds for --wait.")] = 300.0,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key always gives the same job.")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option(help="JSON object for the agent's hidden context.")
    ] = None,
    tenant: Annotated[str, typer.Option(help="For whom it runs.")] = "",
    label: Annotated[
        list[str] | None, typer.Option(help="Who may answer its pauses; may be repeated.")
    ] = None,
    delay: Annotated[float, typer.Option(min=0.0, help="Seconds before it may start.")] = 0.0,
    priority: Annotated[
        str | None, typer.Option(help="high, normal or low; or a number, of the message alone.")
    ] = None,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Also if no worker has announced the agent.")
    ] = False,
) -> int:
    """Hand in a job and print its id. It is stored when this returns."""
    job_id = session.client.submit(
        agent,
        read_value(text, as_json),
        idempotency_key=idempotency_key,
        metadata=parse_object("--metadata", metadata),
        tenant=tenant,
        labels=label or (),
        delay_s=delay,
        priority=_priority(priority),
        check_agent=not no_check,
    )
    if wait:
        return _watch(session, job_id, timeout)
    session.out.result({"job_id": job_id}, job_id)
    return failures.OK


def _priority(given: str | None) -> int | str | None:
    """A number is one of the broker's; anything else names a class."""
    return int(given) if given is not None and given.isdigit() else given


def _watch(session: Session, job_id: str, timeout_s: float) -> int:
    """``wait_for``, which a Ctrl-C ends without ending the job."""
    try:
        return wait_for(session, job_id, timeout_s)
    except KeyboardInterrupt:
        session.out.note(_GOES_ON.format(job=job_id, state="goes on"))
        return failures.INTERRUPTED


def wait_for(session: Session, job_id: str, timeout_s: float) -> int:
    """Follow a job to its end or pause; the answer goes to standard output.

    Returns the exit code that says how it stands.
    """
    from worker.rendering import Printer, follow, rests

    events = follow(session.store, job_id, until=rests, timeout_s=timeout_s)
    if session.out.as_json:
        for _ in events:
            pass
        view = session.store.read(job_id)
        session.out.value(view.model_dump(mode="json"))
        return standing(view)
    printer = Printer(session.out.errors, session.store, job_id, options=session.common.options)
    printer.head()
    for event in events:
        printer.event(event)
    return _say_end(session, printer.end(answer=False), timeout_s)


def _say_end(session: Session, view: JobView, timeout_s: float) -> int:
    from worker.rendering import plain

    code = standing(view)
    if view.outcome is not None and view.outcome.ok:
        session.out.exactly(plain(view.outcome.value))
    if code == failures.TIMED_OUT:
        state = f"is still {view.status} after {timeout_s:g} s and goes on"
        session.out.note(_GOES_ON.format(job=view.job_id, state=state))
    return code


def standing(view: JobView) -> int:
    """The exit code for where a job stands."""
    codes: dict[Any, int] = {
        "succeeded": failures.OK,
        "failed": failures.FAILED,
        "cancelled": failures.FAILED,
        "paused": failures.PAUSED,
    }
    return codes.get(view.status, failures.TIMED_OUT)
