"""``quarantine``, ``purge``, ``fork``, ``durability``, ``redis-keys``: operators' commands."""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import failures
from worker.cli.command import command
from worker.cli.looking import (
    AgentOption,
    CursorOption,
    JobArgument,
    LimitOption,
    TenantOption,
    tell_rest,
)

if TYPE_CHECKING:
    from api_client.contract import JobSpec, JobStatus
    from worker.cli.session import Session

IdOption = Annotated[
    str | None,
    typer.Option("--id", metavar="NEW", help="Id of the new job; a new one if left out."),
]
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_AGE = re.compile(r"(\d+)\s*([smhdw])")
_BATCH = 1000


def register(app: typer.Typer) -> None:
    """Add the commands."""
    quarantine = typer.Typer(help="Poison jobs: their workers died again and again at one step.")
    command(quarantine, "list")(list_quarantined)
    command(quarantine, "release")(release)
    command(quarantine, "drop")(drop)
    app.add_typer(quarantine, name="quarantine")
    command(app, "purge")(purge)
    command(app, "fork")(fork)
    command(app, "durability")(durability)
    command(app, "redis-keys")(redis_keys)


# --- quarantine ------------------------------------------------------------------------------


def list_quarantined(
    session: Session,
    limit: LimitOption = 100,
    agent: AgentOption = None,
    tenant: TenantOption = None,
    cursor: CursorOption = "",
) -> int:
    """Poison jobs that nobody has released or dropped, the longest there first."""
    from worker.cli.tables import jobs_listing

    page = session.client.jobs(
        "poison", limit, cursor, agent=agent, tenant=tenant, newest_first=False
    )
    values = [view.model_dump(mode="json") for view in page]
    session.out.result(values, jobs_listing(page) if page else "no job is in quarantine")
    tell_rest(session, page)
    return failures.OK


def release(session: Session, job: JobArgument) -> int:
    """Let a poison job go on from its last checkpoint, under a new id, which is printed."""
    return _accepted(session, job, session.admin.release(job), "released_from")


def drop(session: Session, job: JobArgument) -> int:
    """Forget a poison job."""
    from api_client.errors import Conflict
    from api_client.survey import POISON

    view = session.admin.read(job)
    if view.outcome is None or view.outcome.reason != POISON:
        raise Conflict(f"job {job} is {view.status}, not in quarantine")
    session.admin.purge(job, force=True)
    session.out.result({"job_id": job, "dropped": True}, f"job {job} is forgotten")
    return failures.OK


def _accepted(session: Session, job: str, spec: JobSpec, how: str) -> int:
    """Say which job came of it, and tell the workers."""
    session.client.hint(spec)
    session.out.result({"job_id": spec.job_id, how: job}, spec.job_id)
    return failures.OK


# --- purge -----------------------------------------------------------------------------------


def purge(
    session: Session,
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="One job.")] = None,
    ended_before: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="All that ended before so long: 90s, 30m, 12h, 7d, 4w."),
    ] = None,
    status: Annotated[
        list[str] | None, typer.Option(help="Of those only the ones with this status; repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also what the result backend has not got yet.")
    ] = False,
) -> int:
    """Forget jobs that have ended: record, transcript and trace, before their retention is over."""
    from api_client.errors import InvalidInput

    if (job is None) == (ended_before is None):
        raise InvalidInput("give a job, or --ended-before with an age such as 7d")
    if job is not None:
        if status:
            raise InvalidInput("--status goes with --ended-before, not with a job")
        return _purge(session, [job], dry_run, force)
    before_ms = int((time.time() - seconds_of(ended_before or "")) * 1000)
    found = [
        job_id
        for each in _ended_statuses(status)
        for job_id in session.admin.ended_before(each, before_ms, _BATCH)
    ]
    return _purge(session, found, dry_run, force, many=True)


def seconds_of(age: str) -> int:
    """Seconds of an age such as ``7d``.

    Raises:
        InvalidInput: it has another form.
    """
    from api_client.errors import InvalidInput, shorten

    match = _AGE.fullmatch(age.strip())
    if match is None:
        raise InvalidInput(f"age {shorten(age)}: write a number and s, m, h, d or w, such as 7d")
    return int(match[1]) * _UNITS[match[2]]


def _ended_statuses(names: list[str] | None) -> list[JobStatus]:
    from api_client.contract import JobStatus
    from api_client.errors import InvalidInput, shorten

    ended = [status for status in JobStatus if status.ended]
    for name in names or ():
        if name not in ended:
            raise InvalidInput(f"--status {shorten(name)}: give one of {', '.join(ended)}")
    return [status for status in ended if not names or status in names]


def _purge(
    session: Session, ids: list[str], dry_run: bool, force: bool, *, many: bool = False
) -> int:
    """Purge jobs; of many, those that cannot be purged are told and left."""
    from api_client.errors import Conflict, JobNotFound

    gone, kept = [], []
    for job_id in ids:
        if dry_run:
            session.admin.read(job_id)
            gone.append(job_id)
            continue
        try:
            session.admin.purge(job_id, force=force)
            gone.append(job_id)
        except (Conflict, JobNotFound) as error:
            if not many:
                raise
            kept.append(str(error))
    verb = "would be forgotten" if dry_run else "forgotten"
    value = {"purged": gone, "kept": kept, "dry_run": dry_run}
    text = (
        "\n".join([*gone, *kept, f"{len(gone)} jobs {verb}"]) if many else f"job {ids[0]}: {verb}"
    )
    session.out.result(value, text)
    return failures.REFUSED if kept else failures.OK


# --- the rest --------------------------------------------------------------------------------


def fork(session: Session, job: JobArgument, new_id: IdOption = None) -> int:
    """Begin a new job where one that has ended stands; prints its id."""
    return _accepted(session, job, session.admin.fork(job, new_id=new_id), "forked_from")


_SURVIVES = {
    "power_loss": "a power loss: each commit is on disk before it counts",
    "process_crash": "a crash of the server's process; a power loss takes up to two seconds",
    "nothing": "nothing: the server keeps no append-only file",
    "unknown": "unknown: this user may not ask the server",
}


def durability(session: Session) -> int:
    """What an accepted job survives, as far as the server tells."""
    from worker.cli.tables import facts_table

    found = asdict(session.admin.durability())
    shown: dict[str, Any] = {
        "survives": _SURVIVES[found["survives"]],
        "appendonly": _yes_no(found["appendonly"]),
        "appendfsync": found["appendfsync"] or "",
        "maxmemory-policy": found["maxmemory_policy"] or "",
        "replicas": "" if found["replicas"] is None else str(found["replicas"]),
    }
    session.out.result(found, facts_table(shown))
    return failures.OK


def _yes_no(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def redis_keys(session: Session, job: JobArgument) -> int:
    """The Redis keys of a job: what each is, how large, and how long it stays."""
    from worker.cli.tables import Listing
    from worker.rendering import duration

    found = session.admin.keys_of(job)
    rows = [
        (
            key.name,
            key.kind,
            f"{key.size:,} bytes",
            "" if key.expires_ms is None else f"for {duration(key.expires_ms)}",
        )
        for key in found
    ]
    values = [asdict(key) for key in found]
    session.out.result(values, Listing(("key", "type", "size", "stays"), rows))
    return failures.OK
