"""The command ``stepkeeper``.

    app         the command tree; what runs first and what an error becomes
    command     options that every command takes
    session     one command's connections, opened when they are first used
    output      text for people, or JSON
    inputs      texts, JSON and numbers from the command line
    failures    exit codes and one-line errors
    submitting, looking, deciding, working, showing, chaos, evaluating     the commands

Nothing here imports the client or the worker before a command needs it: ``--help`` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (see ``worker.cli.failures``).

    Args:
        arguments: without the program's name; the process's own if not given.
    """
    try:
        from worker.cli.app import run
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.stderr.write("stepkeeper: the command is an extra: pip install 'stepkeeper[worker]'\n")
        return 2
    return run(sys.argv[1:] if arguments is None else arguments)
