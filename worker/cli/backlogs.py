"""``backlogs``: how many jobs wait for each agent and queue, and how many may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import failures
from worker.cli.command import command
from worker.cli.limits import Listing

if TYPE_CHECKING:
    from api_client.backlogs import Backlog
    from worker.cli.session import Session

AgentOption = Annotated[
    str, typer.Option(metavar="NAME", help="The agent; '*': each that has no cap of its own.")
]
QueueOption = Annotated[
    str, typer.Option(metavar="NAME", help="All agents of a queue; '*': of each without a cap.")
]
CapArgument = Annotated[
    int, typer.Argument(metavar="N", help="Jobs that may wait to run; 0: no limit.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    backlogs = typer.Typer(help="How many jobs may wait for agents and queues.", cls=Listing)
    command(backlogs, "list")(list_backlogs)
    command(backlogs, "set")(set_cap)
    command(backlogs, "unset")(unset_cap)
    app.add_typer(backlogs, name="backlogs")


def list_backlogs(session: Session) -> int:
    """How many jobs wait for each agent and queue, how many may, and who says so."""
    from worker.cli.tables import Listing as Table

    found = session.client.backlogs()
    values = {"backlogs": [backlog.model_dump(mode="json") for backlog in found]}
    table = Table(("", "name", "waiting", "at most", "set by"), [_cells(each) for each in found])
    session.out.result(values, table if found else "no worker has announced an agent")
    return failures.OK


def _cells(backlog: Backlog) -> tuple[str, ...]:
    present = "" if backlog.name == "*" else f"{backlog.present:,}"
    cap = "" if backlog.cap is None else f"{backlog.cap:,}"
    return backlog.kind, backlog.name, present, cap, backlog.set_by


def set_cap(
    session: Session, cap: CapArgument, agent: AgentOption = "", queue: QueueOption = ""
) -> int:
    """Say how many jobs may wait for an agent or a queue; one more is refused. Holds at once."""
    session.client.set_backlog(cap, agent=agent, queue=queue)
    said = f"at most {cap:,} jobs that wait" if cap else "no limit"
    value = {"agent": agent or None, "queue": queue or None, "cap": cap or None}
    session.out.result(value, f"{_called(agent, queue)}: {said}")
    return failures.OK


def unset_cap(session: Session, agent: AgentOption = "", queue: QueueOption = "") -> int:
    """Forget a cap; that of the agent's code, or of '*', holds again."""
    known = session.client.forget_backlog(agent=agent, queue=queue)
    text = "its cap is forgotten" if known else "it has no cap of its own"
    value = {"agent": agent or None, "queue": queue or None, "forgotten": known}
    session.out.result(value, f"{_called(agent, queue)}: {text}")
    return failures.OK


def _called(agent: str, queue: str) -> str:
    return f"agent {agent}" if agent else f"queue {queue}"
