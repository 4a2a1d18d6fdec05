"""Which commands and options there are, and whether a text names others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import typer

from worker.cli.app import app

_NAMED = re.compile(r"(?:^|[`\s$])stepkeeper ([a-z][^`\n]*)")


def named(text: str) -> Iterator[list[str]]:
    """Each command that a text names, as words: in code, behind a prompt, or between backticks."""
    for line in _code(text):
        for found in _NAMED.finditer(line):
            yield _words(found[1])


def _code(text: str) -> Iterator[str]:
    """Lines of fenced and indented blocks, and what stands between backticks elsewhere."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield line
        else:
            yield from re.findall(r"`(stepkeeper [^`]*)`", line)


def _words(text: str) -> list[str]:
    """As a shell reads it, without what is explained behind two blanks, pipes and comments."""
    line = re.split(r" {2,}| [|>&] | #|; | \\$", text)[0]
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def unknown(words: list[str]) -> str:
    """What of a command line there is not; empty if it is all there."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        found = command.commands.get(rest[0])
        if found is None:
            return f"there is no command {rest[0]!r}"
        command, rest = found, rest[1:]
    known = {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help"}
    for word in rest:
        if re.match(r"--[a-z]", word) and word.partition("=")[0] not in known:
            return f"{command.name} has no option {word}"
    return ""
