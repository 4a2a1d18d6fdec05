"""``new-key`` and ``rekey``: the keys with which the store is encrypted."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import failures
from worker.cli.command import command

if TYPE_CHECKING:
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how much.")] = False,
) -> int:
    """Encrypt every stored job with the first key; workers may run meanwhile."""
    found = session.rekeying.rekey(dry_run=dry_run)
    doing = "to be encrypted anew" if dry_run else "encrypted anew"
    lines = [f"{found.jobs} jobs, {found.changed} {doing}", *found.unreadable]
    session.out.result(asdict(found), "\n".join(lines))
    return failures.FAILED if found.unreadable else failures.OK
