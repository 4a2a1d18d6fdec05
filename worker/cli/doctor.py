"""``doctor``: what is wrong with a deployment, and the setting to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import failures
from worker.cli.apps import AppOption, named_app, settings_of
from worker.cli.command import command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from worker.cli.session import Session
    from worker.doctor import Finding

_STYLES = {"error": "bold red", "warning": "bold yellow", "advice": "bold"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    told = "Exit code 1 if there is an error; warnings and advice alone give 0."
    command(app, "doctor", epilog=told)(doctor)


def doctor(
    session: Session,
    app: AppOption = None,
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

    settings = settings_of(session)
    found = examine(Patient(settings, named_app(app) if app else None, workers, model, writes))
    value = {"findings": [finding.as_json() for finding in found]}
    session.out.result(value, _text(found))
    return failures.FAILED if any(f.level == "error" for f in found) else failures.OK


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
