"""``rerun``: a job again from one of its steps, with something changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import failures
from worker.cli.command import command
from worker.cli.inputs import read_text, read_value
from worker.cli.looking import JobArgument
from worker.cli.operating import IdOption

if TYPE_CHECKING:
    from worker.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "rerun")(rerun)


def rerun(
    session: Session,
    job: JobArgument,
    step: Annotated[
        int, typer.Option("--from", min=1, metavar="STEP", help="The first step to do anew.")
    ] = 1,
    task: Annotated[
        str | None, typer.Option("--input", metavar="TEXT", help="Another task; - reads stdin.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--as-json", help="The task is JSON.")] = False,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Another model behind the agent's API.")
    ] = None,
    goal: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Another goal; - reads stdin.")
    ] = None,
    new_id: IdOption = None,
) -> int:
    """Begin a new job with another one's messages before a step; prints the new job's id.

    Tools are those of the agent's code as it is now. The old job stays as it is.
    """
    from worker.replay import beginning

    given = None if task is None else read_value(task, as_json)
    view = session.admin.read(job)
    start = beginning(
        view,
        session.admin.messages(job),
        [*session.client.trace(job)],
        step,
        version=_version(session, view.spec.agent),
        goal=None if goal is None else read_text(goal),
        input=given,
    )
    changes: dict[str, Any] = {} if given is None else {"input": given}
    if model is not None:
        changes["model"] = model
    spec = session.admin.rerun(job, start, changes=changes, new_id=new_id)
    session.client.hint(spec)
    value = {"job_id": spec.job_id, "rerun_of": job, "from_step": step}
    session.out.result(value, spec.job_id)
    return failures.OK


def _version(session: Session, agent: str) -> str:
    """Of the agent's code as workers have it now, so that the new job meets no change of it."""
    known = {info.name: info.version for info in session.client.agents()}
    return known.get(agent, "")
