"""Lines on a terminal, a pipe or a narrow window."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from typing import NoReturn, TextIO

from rich.console import Console
from rich.text import Text

from api_client.contract import Event, JobStatus, JobView
from worker.rendering.follow import TraceSource, follow, written
from worker.rendering.narrator import Line, Narrator, Tone
from worker.rendering.texts import about, clean, how_to_answer, plain, totals
from worker.rendering.transcript import TranscriptReader

UNBROKEN = 100_000
"""Width of what is not a terminal: programs such as grep want whole lines."""

_LABEL = 14
_NARROW = 48
_STYLES: dict[Tone, str] = {
    "head": "bold",
    "plain": "",
    "action": "cyan",
    "quiet": "dim",
    "bad": "red",
    "wait": "yellow",
    "person": "magenta",
}
STATUS_STYLES = {
    JobStatus.SUCCEEDED: "bold green",
    JobStatus.FAILED: "bold red",
    JobStatus.CANCELLED: "bold red",
    JobStatus.PAUSED: "bold yellow",
}


def make_console(file: TextIO | None = None, *, width: int | None = None) -> Console:
    """A console that only prints what it is given: no markup, no guessed highlights.

    Args:
        file: standard output if not given.
        width: columns; the terminal's, or ``COLUMNS``, or no limit where there is no terminal.
    """
    file = file or sys.stdout
    if width is None:
        width = _wished_width() or (None if file.isatty() else UNBROKEN)
    return _Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def _wished_width() -> int | None:
    """``COLUMNS``; none for 0, as some programs that have no terminal set it."""
    wished = os.environ.get("COLUMNS", "")
    return int(wished) or None if wished.isdecimal() else None


class _Console(Console):
    """Leaves a broken pipe to its caller, where rich would end the process."""

    def on_broken_pipe(self) -> NoReturn:
        """Called while ``BrokenPipeError`` is handled."""
        raise BrokenPipeError


class Printer:
    """Prints one job.

    Args:
        full: observations and plans whole instead of their beginnings.
        options: of the commands that are shown, such as ``--embedded``.
    """

    def __init__(
        self,
        console: Console,
        store: TraceSource,
        job_id: str,
        *,
        full: bool = False,
        options: str = "",
    ) -> None:
        self._console = console
        self._store = store
        self._job_id = job_id
        self._options = options
        transcript = TranscriptReader(lambda start: store.messages(job_id, start))
        self._narrator = Narrator(transcript, lambda: store.read(job_id), full=full)

    def head(self) -> None:
        """Which job it is."""
        view = self._store.read(self._job_id)
        text = Text.assemble(("job ", "bold"), (view.job_id, "bold"), f"  agent {view.spec.agent}")
        if view.spec.tenant:
            text.append(f"  tenant {clean(view.spec.tenant)}")
        if view.spec.labels:
            text.append(f"  labels {clean(', '.join(view.spec.labels))}")
        self._say(text.append(f"  {local_time(view.created)}", "dim"))

    def event(self, event: Event) -> None:
        """One record."""
        for line in self._narrator.tell(event):
            self.line(line)

    def line(self, line: Line) -> None:
        """One entry, its text wrapped behind its label."""
        body = Text(clean(line.text), _STYLES[line.tone])
        if line.aside:
            body.append(f"  {clean(line.aside)}" if line.text else clean(line.aside), "dim")
        self._entry(("  " if line.inside else "") + clean(line.label), body, line.tone)

    def end(self, *, answer: bool = True) -> JobView:
        """Where the job stands: its answer, its failure or what it waits for; and the totals.

        Args:
            answer: print the answer; not wanted by who prints it elsewhere.
        """
        view = self._store.read(self._job_id)
        outcome = view.outcome
        if outcome is not None and outcome.ok and answer:
            self.line(Line("answer", plain(outcome.value), "head"))
        if outcome is not None and not outcome.ok:
            self.line(Line("reason", f"{outcome.text} [{outcome.reason}]", "bad"))
        self._pause(view)
        status = Text(view.status, STATUS_STYLES.get(view.status, "bold"))
        self._say(status.append(f" · {totals(view)}", "not bold dim"))
        return view

    def _pause(self, view: JobView) -> None:
        if view.pause is not None and (action := about(view.pause)):
            self.line(Line("about", action, "action"))
        for number, command in enumerate(how_to_answer(view, self._options)):
            self.line(Line("" if number else "answer with", command))

    def _entry(self, label: str, body: Text, tone: Tone) -> None:
        width = self._console.width
        narrow = width < _NARROW
        indent = "    " if narrow else " " * _LABEL
        head = Text(label, "bold" if tone == "head" else "dim")
        lines = body.wrap(self._console, max(8, width - len(indent)), tab_size=4)
        if narrow:
            self._say(head)
        for number, line in enumerate(lines or [Text()]):
            line.rstrip()
            if number == 0 and not narrow:
                gap = " " * max(1, _LABEL - len(label))
                self._say(Text.assemble(head, gap if line else "", line))
            elif line or not narrow:
                self._say(Text.assemble(indent if line else "", line))

    def _say(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def print_trace(
    console: Console,
    store: TraceSource,
    job_id: str,
    *,
    after: str = "0",
    following: bool = False,
    full: bool = False,
    options: str = "",
) -> JobView:
    """Print a job's trace: its steps, pauses and signals, its answer and its totals.

    Args:
        after: the offset (an event's id) behind which to begin.
        following: go on until the job has ended.
        full: observations and plans whole instead of their beginnings.
        options: of the commands that are shown, such as ``--embedded``.

    Returns where the job stands at the end.

    Raises:
        JobNotFound, StoreUnavailable
    """
    printer = Printer(console, store, job_id, full=full, options=options)
    printer.head()
    events = follow(store, job_id, after) if following else written(store, job_id, after)
    for event in events:
        printer.event(event)
    return printer.end()


def local_time(ms: int) -> str:
    """A time of the store in the reader's own time zone, to the second."""
    return datetime.fromtimestamp(ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
