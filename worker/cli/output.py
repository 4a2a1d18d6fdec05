"""What a command says: text for people, or JSON for programs."""

from __future__ import annotations

import errno
import json
import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


class Output:
    """Standard output and standard error of one command.

    Args:
        as_json: results are JSON, one object a line; what only people want is left out.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        # Kept, because Celery puts a logger in the place of sys.stdout.
        self._stdout = sys.stdout
        self._stderr = sys.stderr

    @cached_property
    def console(self) -> Console:
        """For results."""
        from worker.rendering import make_console

        return make_console(self._stdout)

    @cached_property
    def errors(self) -> Console:
        """For what is said beside the results."""
        from worker.rendering import make_console

        return make_console(self._stderr)

    def value(self, value: Any) -> None:
        """A JSON value on one line."""
        readable = self._stdout.encoding.lower().replace("-", "") == "utf8"
        self._stdout.write(json.dumps(value, ensure_ascii=not readable) + "\n")
        self._stdout.flush()

    def result(self, value: Any, text: RenderableType) -> None:
        """One result: the value as JSON, or the text for people."""
        if self.as_json:
            self.value(value)
        else:
            self.console.print(text, soft_wrap=isinstance(text, str))

    def note(self, text: str) -> None:
        """Something that only people want to know, on standard error."""
        if not self.as_json:
            self.errors.print(text, soft_wrap=True)

    def beside(self, value: Any, text: str) -> None:
        """Something that belongs to the results and is none, on standard error: JSON, or a text."""
        if self.as_json:
            self._stderr.write(json.dumps(value) + "\n")
        else:
            self.note(text)

    def exactly(self, text: str) -> None:
        """A text as it is into a file or pipe; without anything harmful onto a terminal."""
        from worker.rendering import clean

        self._stdout.write((clean(text) if self._stdout.isatty() else text) + "\n")
        self._stdout.flush()

    def detach_stdout(self) -> None:
        """From here on only results go to standard output; what others write there goes to
        standard error.
        """
        self._stdout.flush()
        descriptor = self._stdout.fileno()
        self._stdout = os.fdopen(os.dup(descriptor), "w", encoding="utf-8")
        os.dup2(sys.stderr.fileno(), descriptor)


def reopen_closed() -> None:
    """A command that was started without an output has one that leads nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123


def cannot_write(error: OSError) -> bool:
    """Whether an error says that the output is full, or gone; errors of files name the file."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF)


def leave_pipe() -> None:
    """Whoever read our output has had enough; what is still in a buffer must not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
