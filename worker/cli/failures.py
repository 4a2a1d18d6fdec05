"""Exit codes, and what an error looks like.

0    done; with --wait: the job succeeded
1    the job failed or was cancelled
2    bad input, an unknown agent or job, or a conflict; nothing was changed
3    the job waits for a person
4    the job has not ended in the given time; it goes on
5    the store cannot be reached, or refuses to write
6    the output could not be written; what was asked for is done
130  interrupted
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from typer import TyperException

OK = 0
FAILED = 1
REFUSED = 2
PAUSED = 3
TIMED_OUT = 4
UNREACHABLE = 5
OUTPUT_LOST = 6
INTERRUPTED = 130

EXIT_CODES = (
    "Exit codes: 0 done, 1 the job failed or was cancelled, 2 refused (bad input, unknown, "
    "conflict), 3 the job waits for a person, 4 not ended in time, 5 the store is unreachable, "
    "6 the output could not be written."
)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of ours, as its caller sees it."""

    kind: str
    message: str
    code: int

    def say(self, as_json: bool) -> int:
        """Print it as one line on standard error; returns the exit code."""
        line = " ".join(self.message.split())
        if as_json:
            line = json.dumps({"error": self.kind, "message": line})
        else:
            line = f"stepkeeper: {_printable(line)}"
        sys.stderr.write(f"{line}\n")
        return self.code


def output_lost(error: OSError) -> Failure:
    """Standard output takes no more."""
    text = f"standard output cannot be written: {error.strerror}"
    return Failure("OutputLost", text, OUTPUT_LOST)


def explain(error: Exception) -> Failure | None:
    """What an error means to who typed the command; ``None`` for one that is none of ours."""
    if isinstance(error, TyperException):
        return Failure("InvalidInput", _usage(error), REFUSED)
    from api_client.errors import StepkeeperError

    if isinstance(error, StepkeeperError):
        return Failure(type(error).__name__, str(error), _code(error))
    return None


def _code(error: Exception) -> int:
    from api_client.errors import JobEnded, StoreUnavailable, WaitTimeout
    from worker.embedded.errors import EmbeddedServerError

    match error:
        case StoreUnavailable() | EmbeddedServerError():
            return UNREACHABLE
        case WaitTimeout():
            return TIMED_OUT
        case JobEnded():
            return FAILED
    return REFUSED


def _usage(error: TyperException) -> str:
    """What is wrong with the command line, and where to read on."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "stepkeeper"
    return f"{error.format_message().rstrip('.')}. See: {path} --help"


def _printable(line: str) -> str:
    """The line without what could steer a terminal."""
    if line.isprintable():
        return line
    from worker.rendering.texts import clean

    return clean(line)
