"""Options that every command takes, declared once."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer

from worker.cli.command import Common, command
from worker.cli.session import Session


def parsed(arguments: list[str]) -> tuple[object, ...]:
    """What a command is given for a command line."""
    seen: list[tuple[object, ...]] = []
    app = typer.Typer()
    app.callback()(lambda: None)

    @command(app, "greet")
    def greet(session: Session, name: Annotated[str, typer.Argument()], loud: bool = False) -> int:
        common = session.common
        seen.append((name, loud, common.embedded, common.redis_url, common.json))
        return 7

    assert app(args=["greet", *arguments], standalone_mode=False) == 7
    return seen[0]


def test_a_command_gets_its_own_options_and_the_common_ones() -> None:
    assert parsed(["anna"]) == ("anna", False, None, "", False)
    arguments = ["--json", "anna", "--redis-url", "redis://r", "--loud"]
    assert parsed(arguments) == ("anna", True, None, "redis://r", True)


def test_the_store_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPKEEPER_REDIS_URL", "redis://env")
    assert parsed(["anna"])[3] == "redis://env"
    assert parsed(["anna", "--redis-url", "redis://arg"])[3] == "redis://arg"


@pytest.mark.parametrize(
    ("arguments", "embedded"),
    [
        (["--embedded", "anna"], ""),
        (["anna", "--embedded"], ""),
        (["--embedded=/data", "anna"], "/data"),
        (["anna"], None),
    ],
)
def test_a_lone_embedded_swallows_no_argument(arguments: list[str], embedded: str | None) -> None:
    assert parsed(arguments)[:3] == ("anna", False, embedded)


def test_behind_two_dashes_stands_text() -> None:
    assert parsed(["--", "--embedded"])[:3] == ("--embedded", False, None)


@pytest.mark.parametrize(
    ("embedded", "options"),
    [(None, ""), ("", "--embedded"), ("/my data", "'--embedded=/my data'")],
)
def test_a_command_that_is_shown_finds_the_same_store(embedded: str | None, options: str) -> None:
    assert Common(embedded=embedded).options == options
