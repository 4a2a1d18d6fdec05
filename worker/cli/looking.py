"""``status``, ``trace``, ``inbox``, ``jobs``, ``agents``: commands that change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import failures
from worker.cli.command import command

if TYPE_CHECKING:
    from api_client.lists import JobPage, ListName
    from worker.cli.session import Session

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
LimitOption = Annotated[int, typer.Option(min=1, max=10_000, help="The most that is listed.")]
CursorOption = Annotated[
    str, typer.Option(metavar="CURSOR", help="Go on behind the page that gave it.")
]


AgentOption = Annotated[str | None, typer.Option(help="Only jobs of this agent.")]
LabelOption = Annotated[
    str | None, typer.Option(help="Only pauses for people with this label; '' for anybody's.")
]
KindOption = Annotated[
    str | None, typer.Option(help="Only pauses of this kind, such as approval or budget.")
]
TenantOption = Annotated[str | None, typer.Option(help="Only this tenant's jobs.")]
OlderOption = Annotated[
    float | None, typer.Option(metavar="SECONDS", min=0.0, help="Waiting for at least so long.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "status")(status)
    command(app, "trace")(trace)
    command(app, "inbox")(inbox)
    command(app, "jobs")(jobs)
    command(app, "agents")(agents)


def status(session: Session, job: JobArgument) -> int:
    """Where a job stands: its answer, what it waits for, what it has used."""
    from worker.cli.tables import status_table

    view = session.store.read(job)
    session.out.result(view.model_dump(mode="json"), status_table(view, session.common.options))
    return failures.OK


def trace(
    session: Session,
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")
    ] = False,
    after: Annotated[
        str, typer.Option(metavar="OFFSET", help="Only what came after the record of this id.")
    ] = "0",
    full: Annotated[bool, typer.Option("--full", help="Whole observations.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write one page with a timeline instead; - is stdout."),
    ] = None,
) -> int:
    """A job's steps: plan, action, observation, and what people did. JSON: one line a record."""
    if html is not None:
        return _write_page(session, job, html)
    from api_client.records import check_offset
    from worker.rendering import follow as followed
    from worker.rendering import print_trace, trace_records, written

    check_offset(after)
    if not session.out.as_json:
        print_trace(
            session.out.console,
            session.store,
            job,
            after=after,
            following=follow,
            full=full,
            options=session.common.options,
        )
        return failures.OK
    events = (followed if follow else written)(session.store, job, after)
    for record in trace_records(session.store, job, events):
        session.out.value(record)
    return failures.OK


def _write_page(session: Session, job: str, path: Path) -> int:
    """The trace as a page, into a file or onto standard output.

    Raises:
        InvalidInput: the file cannot be written.
    """
    from api_client.errors import InvalidInput
    from worker.rendering import trace_page

    page = trace_page(session.store, job)
    if str(path) == "-":
        session.out.exactly(page.rstrip("\n"))
        return failures.OK
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"--html {path}: {error.strerror}") from None
    session.out.result({"job_id": job, "html": str(path)}, f"written: {path}")
    return failures.OK


def inbox(
    session: Session,
    limit: LimitOption = 100,
    agent: AgentOption = None,
    label: LabelOption = None,
    kind: KindOption = None,
    tenant: TenantOption = None,
    older_than: OlderOption = None,
    order: Annotated[str, typer.Option(help="oldest, newest or deadline.")] = "oldest",
    cursor: CursorOption = "",
) -> int:
    """Jobs that wait for a person, the longest waiting first."""
    from worker.cli.tables import inbox_listing

    chosen = filter_of(agent, label, kind, tenant, older_than)
    how: Any = {"order": order}
    page = session.client.inbox(limit, cursor, **chosen, **how)
    values = [view.model_dump(mode="json") for view in page]
    session.out.result(values, inbox_listing(page) if page else "nobody is waited for")
    tell_rest(session, page)
    return failures.OK


def tell_rest(session: Session, page: JobPage) -> None:
    """What of a page does not stand in its rows: unreadable jobs, and how to go on."""
    for one in page.unreadable:
        session.out.beside(
            {"unreadable": one.job_id, "reason": one.reason},
            f"stepkeeper: unreadable: {one.reason}",
        )
    if page.next_cursor:
        session.out.beside(
            {"next_cursor": page.next_cursor},
            f"stepkeeper: there are more; go on with --cursor {page.next_cursor}",
        )


def filter_of(
    agent: str | None,
    label: str | None,
    kind: str | None,
    tenant: str | None,
    older_than: float | None,
) -> dict[str, Any]:
    """Which of the paused jobs, as ``AgentClient.inbox`` takes it."""
    return {
        "agent": agent,
        "label": label,
        "kind": kind,
        "tenant": tenant,
        "older_than_s": older_than,
    }


def jobs(
    session: Session,
    status: Annotated[
        str | None,
        typer.Option(help="List the jobs in this status, or poison; count all, if not given."),
    ] = None,
    limit: LimitOption = 50,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest first.")] = False,
    agent: AgentOption = None,
    label: Annotated[
        str | None, typer.Option(help="Only jobs with this label; '' for those without any.")
    ] = None,
    tenant: TenantOption = None,
    cursor: CursorOption = "",
) -> int:
    """Jobs in one status, the newest first; or how many there are in each."""
    from worker.cli.tables import count_table, jobs_listing

    if status is None:
        counts = _counts(session)
        session.out.result(counts, count_table(counts))
        return failures.OK
    page = session.client.jobs(
        _list_name(status),
        limit,
        cursor,
        agent=agent,
        label=label,
        tenant=tenant,
        newest_first=not oldest,
    )
    values = [view.model_dump(mode="json") for view in page]
    session.out.result(values, jobs_listing(page) if page else f"no job is {status}")
    tell_rest(session, page)
    return failures.OK


def _counts(session: Session) -> dict[str, int]:
    from api_client.contract import JobStatus

    return {str(status): session.store.count(status) for status in JobStatus}


def _list_name(name: str) -> ListName:
    from api_client.errors import InvalidInput
    from api_client.lists import list_name

    try:
        return list_name(name)
    except InvalidInput as error:
        raise InvalidInput(f"--{error}") from None


def agents(session: Session) -> int:
    """The agents that workers have announced."""
    from worker.cli.tables import agents_listing

    infos = session.client.agents()
    values = [info.model_dump(mode="json") for info in infos]
    session.out.result(values, agents_listing(infos) if infos else "no worker has announced any")
    return failures.OK
