"""Runs one call of a tool in a process of its own, which can be killed at any time.

The request and the answer are JSON; the function is found by its module and name. The process
ends by itself when the worker dies, and takes the processes it started with it when it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from worker.context import ActionContext, CallInfo
from worker.errors import PauseRequested, ToolFailed, ToolRegistrationError, ToolRetry
from worker.tools.results import Unwritable
from worker.tools.threads import Outcome, TimedOut

LARGEST_ANSWER = 16 * 1024 * 1024


class Died(Exception):
    """The process ended without an answer; the text says how."""


class Raised(Exception):
    """The tool raised something in its process.

    Args:
        kind: the exception's name.
        text: its text.
        trace: its traceback, for the log.
    """

    def __init__(self, kind: str, text: str, trace: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.trace = trace


@dataclass(frozen=True, slots=True)
class Place:
    """Where the other process finds a function: a module's name, or a script's path, and the
    function's name in it. ``parameters`` is the schema that was given instead of the signature."""

    module: str
    name: str
    path: str | None = None
    parameters: dict[str, Any] | None = None


def place_of(
    function: Callable[..., Any],
    tool: str,
    context: type[ActionContext] | None,
    parameters: Mapping[str, Any] | None,
) -> Place:
    """Where to find the function again.

    Raises:
        ToolRegistrationError: another process could not, or could not have its context.
    """
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "<none>")
    if not module or "<" in name or hasattr(function, "__self__"):
        raise ToolRegistrationError(
            f"tool {tool!r}: isolate=True needs a function at module level, which another process "
            "can import by its name"
        )
    if context not in (None, ActionContext):
        raise ToolRegistrationError(
            f"tool {tool!r}: isolate=True cannot pass a {context.__name__} to another process; "
            "take a plain ActionContext, and open what the tool needs inside it"
        )
    return Place(module, name, _script(module), dict(parameters) if parameters else None)


def _script(module: str) -> str | None:
    """The path of the program that runs, if the function stands in it."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return str(Path(file).resolve()) if module == "__main__" and file else None


def run_isolated(place: Place, canonical: str, info: CallInfo, seconds: float) -> Outcome:
    """Run one call in a new process.

    Args:
        canonical: the arguments as JSON.
        seconds: after which the process and all it has started are killed.

    Raises:
        TimedOut: it was killed for its time.
        Died: it ended without an answer: killed, out of memory, ``os._exit``.
    """
    request = {"place": asdict(place), "arguments": canonical, "call": asdict(info)}
    with tempfile.TemporaryFile() as answer:
        process = _start(answer)
        try:
            _send(process, request)
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimedOut from None
        finally:
            _end(process)
        return _read(answer, code)


def _start(answer: IO[bytes]) -> subprocess.Popen[bytes]:
    paths = [path or str(Path.cwd()) for path in sys.path]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "worker.tools.child"],
        stdin=subprocess.PIPE,
        stdout=answer,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def _send(process: subprocess.Popen[bytes], request: dict[str, Any]) -> None:
    """Write the request, but leave the pipe open: its end tells the process to end."""
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        return  # It is dead already, which its exit code will tell.


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    try:
        process.stdin.close()
    except BrokenPipeError:
        return  # What was not read is of no use any more.


def _read(answer: IO[bytes], code: int) -> Outcome:
    answer.seek(0)
    text = answer.read(LARGEST_ANSWER + 1)
    if code != 0 or not text:
        raise Died(_how(code))
    told: dict[str, Any] = json.loads(text)
    if "error" in told:
        return Outcome(error=_ERRORS[told["error"]](*told["args"]))
    return Outcome(value=told["value"])


_ERRORS: dict[str, Callable[..., Exception]] = {
    "raised": Raised,
    "retry": ToolRetry,
    "failed": ToolFailed,
    "pause": PauseRequested,
    "unwritable": Unwritable,
}


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
