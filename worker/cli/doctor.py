"""``doctor``: what is wrong with a deployment, and the setting to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import failures
from worker.cli.command import command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery import Celery
    from rich.text import Text

    from worker.cli.session import Session
    from worker.doctor import Finding

_STYLES = {"error": "bold red", "warning": "bold yellow"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "doctor", epilog="Exit code 1 if there is an error; warnings alone give 0.")(
        doctor
    )


def doctor(
    session: Session,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE[:APP]", help="The Celery app to check.", show_default="our own"
        ),
    ] = None,
    workers: Annotated[
        bool, typer.Option(help="Whether workers should be running already.")
    ] = True,
    writes: Annotated[
        bool, typer.Option(help="Whether this Redis user should be able to run jobs.")
    ] = True,
    model: Annotated[
        bool, typer.Option("--model", help="Also ask the model's API (LLM_BASE_URL, LLM_API_KEY).")
    ] = False,
) -> int:
    """Check Redis, Celery, workers, agents and settings: what would harm jobs, and what to do."""
    from worker.doctor import Patient, examine
    from worker.settings import Settings

    given = {
        "broker_url": session.common.broker_url or None,
        "partitions": session.common.partitions,
    }
    known = {name: value for name, value in given.items() if value is not None}
    settings = Settings.from_env(redis_url=session.url, **known)
    found = examine(Patient(settings, _app(app) if app else None, workers, model, writes))
    value = {"findings": [finding.as_json() for finding in found]}
    session.out.result(value, _text(found))
    return failures.FAILED if any(f.level == "error" for f in found) else failures.OK


def _app(name: str) -> Celery:
    """The app of this name.

    Raises:
        InvalidInput: there is none.
    """
    from celery.app.utils import find_app

    from api_client.errors import InvalidInput, StepkeeperError

    try:
        found: Any = find_app(name)
    except StepkeeperError:
        raise
    except Exception as reason:
        raise InvalidInput(f"--app {name}: {type(reason).__name__}: {reason}") from reason
    return found  # type: ignore[no-any-return]


def _text(found: Sequence[Finding]) -> Text:
    from rich.text import Text

    from worker.rendering import clean

    if not found:
        return Text("nothing found")
    text = Text()
    for number, finding in enumerate(found):
        text.append("\n\n" if number else "")
        text.append(finding.level, _STYLES[finding.level])
        text.append(f"  {finding.area}  {clean(finding.setting)}\n", "bold")
        text.append(f"  {clean(finding.what)}\n  → {clean(finding.fix)}")
    return text
