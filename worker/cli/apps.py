"""The Celery app that a command is about, and the settings of one of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from celery import Celery

    from worker.cli.session import Session
    from worker.settings import Settings

AppOption = Annotated[
    str | None,
    typer.Option(metavar="MODULE[:APP]", help="The Celery app.", show_default="our own"),
]


def settings_of(session: Session) -> Settings:
    """A worker's settings, as the environment and the command's options have them.

    Raises:
        InvalidInput: one of them cannot be used.
    """
    from worker.settings import Settings

    given = {
        "broker_url": session.common.broker_url or None,
        "partitions": session.common.partitions,
    }
    known = {name: value for name, value in given.items() if value is not None}
    return Settings.from_env(redis_url=session.url, **known)


def named_app(name: str) -> Celery:
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
