"""``ping``: whether one worker answers, for health checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import failures
from worker.cli.command import command

if TYPE_CHECKING:
    from worker.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "ping", epilog="Exit code 1 if it does not answer in time.")(ping)


def ping(
    session: Session,
    name: Annotated[
        str, typer.Option(metavar="NODE", help="The worker's name; %h is the host.")
    ] = "stepkeeper@%h",
    within: Annotated[
        float, typer.Option(min=0.1, max=60, metavar="SECONDS", help="To wait for its answer.")
    ] = 5.0,
) -> int:
    """Ask a worker for an answer: it must read from the broker and write to it."""
    from worker.cli.working import node_name

    node = node_name(name)
    answered = _answers(session, node, within)
    text = f"worker {node} {'answers' if answered else f'does not answer within {within:g} s'}"
    session.out.result({"node": node, "answers": answered}, text)
    return failures.OK if answered else failures.FAILED


def _answers(session: Session, node: str, within_s: float) -> bool:
    """Whether a worker of this name answers.

    Raises:
        StoreUnavailable: the broker cannot be reached.
    """
    from api_client.errors import StoreUnavailable
    from api_client.hints import broker_errors
    from worker.cli.asking import asking_app

    app = asking_app(session)
    connection = app.connection_for_write()
    try:
        with connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
            replies: Any = app.control.ping(
                destination=[node], timeout=within_s, connection=connection, limit=1
            )
    except broker_errors(connection) as error:
        raise StoreUnavailable(f"the broker cannot be asked: {error}") from error
    return bool(replies)
