"""``new-key`` and ``rekey``: the keys with which the store is encrypted."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import failures
from worker.cli.apps import AppOption, named_app, settings_of
from worker.cli.command import command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from api_client.rekeying_jobs import Rekeyed
    from worker.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "new-key")(new_key)
    command(app, "rekey", epilog="Exit code 1 if something cannot be opened.")(rekey)


def new_key(session: Session) -> int:
    """Print a new key for STEPKEEPER_ENCRYPTION_KEYS; it is stored nowhere."""
    from api_client.sealing import new_key as make

    key = make()
    session.out.result({"key": key}, key)
    return failures.OK


def rekey(
    session: Session,
    app: AppOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how much.")] = False,
) -> int:
    """Encrypt what is stored with the first key: jobs, announcements, results in a Redis backend.

    Workers may run meanwhile. It says what remains under older keys, and until when.
    """
    from api_client.rekeying_results import ResultKeys
    from worker.celery_config import bare_app

    store = session.rekeying
    found = store.rekey(dry_run=dry_run)
    celery = named_app(app) if app else bare_app(settings_of(session))
    results = ResultKeys(celery, plain=bool(app))
    results.rekey(store.every_job(), store.now_ms(), found, dry_run=dry_run)
    session.out.result(asdict(found), "\n".join(_lines(found, dry_run=dry_run)))
    return failures.FAILED if found.unreadable else failures.OK


def _lines(found: Rekeyed, *, dry_run: bool) -> Iterator[str]:
    doing = "to be encrypted anew" if dry_run else "encrypted anew"
    yield f"{found.jobs} jobs, {found.changed} {doing}"
    others = (found.announcements, found.events, found.results)
    if any(others):
        names = ("announcements", "events", "results")
        parts = [f"{n} {name}" for n, name in zip(others, names, strict=True) if n]
        yield f"{', '.join(parts)} {doing}"
    yield from found.unreadable
    for one in found.remaining:
        yield f"left: {one.what}{_until(one.until)}"


def _until(ms: int) -> str:
    if not ms:
        return ""
    when = datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"; keep the keys before the first one until {when}"
