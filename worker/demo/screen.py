"""What the demo shows: on a terminal, in a pipe, or as JSON lines for programs."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from api_client.contract import Answer, Event, Finish, Pause
from api_client.store import JobStore
from worker.rendering import Printer, action_text, plain, trace_records

if TYPE_CHECKING:
    from worker.demo.play import Answered

STAGES = 8
SCRIPTED_ANSWER = "Ein Gutschein über 15 € ist in Ordnung."
SCRIPTED_PERSON = "demo"

Decision = Answer | Finish


class Screen(Protocol):
    """What the demo tells, and asks."""

    def stage(self, text: str) -> None:
        """What is being done now."""

    def begin(self, store: JobStore, job_id: str, title: str) -> None:
        """A job that is followed from here on."""

    def event(self, event: Event) -> None:
        """A record of its trace."""

    def note(self, text: str) -> None:
        """Something that happened beside it."""

    def end(self) -> None:
        """It has ended."""

    def ask(self, pause: Pause) -> Decision:
        """A person's decision."""

    def summary(self, answered: Sequence[Answered], seconds: float) -> None:
        """The answers."""

    def close(self) -> None:
        """Leave the terminal as it was."""


def decide(pause: Pause, text: str, by: str) -> Decision:
    """The answer to a question; or the end of a job that was stopped for another reason."""
    if "answer" in pause.accepts:
        return Answer(value=text, by=by)
    return Finish(answer=text, by=by)


class TerminalScreen:
    """Traces as a person reads them, with a progress bar below on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printer: Printer | None = None
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(20),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=STAGES)
        self._resume()

    def _resume(self) -> None:
        if self._console.is_terminal:
            self._progress.start()

    def _rest(self) -> None:
        if self._progress.live.is_started:
            self._progress.stop()

    def stage(self, text: str) -> None:
        """See ``Screen``."""
        self._progress.update(self._task, description=text, advance=1)

    def begin(self, store: JobStore, job_id: str, title: str) -> None:
        """See ``Screen``."""
        self._say("")
        self._say(title, "bold reverse")
        self._printer = Printer(self._console, store, job_id)
        self._printer.head()

    def event(self, event: Event) -> None:
        """See ``Screen``."""
        if self._printer is not None:
            self._printer.event(event)

    def note(self, text: str) -> None:
        """See ``Screen``."""
        self._say(f">>> {text}", "bold red")

    def end(self) -> None:
        """See ``Screen``."""
        if self._printer is not None:
            self._printer.end()

    def ask(self, pause: Pause) -> Decision:
        """At the terminal, if there is one; otherwise the script answers."""
        self._rest()
        self._say(f">>> {pause.question}", "bold yellow")
        if pause.action is not None:
            self._say(f"    {action_text(pause.action.tool, pause.action.arguments)}")
        decision = self._decision(pause)
        self._resume()
        return decision

    def _decision(self, pause: Pause) -> Decision:
        if sys.stdin.isatty() and self._console.is_terminal:
            text = self._read(f">>> Your answer (Enter for: {SCRIPTED_ANSWER}) ")
            return decide(pause, text or SCRIPTED_ANSWER, _user())
        self._say(f">>> no terminal to ask at; the script answers: {SCRIPTED_ANSWER}")
        return decide(pause, SCRIPTED_ANSWER, SCRIPTED_PERSON)

    def _read(self, prompt: str) -> str:
        try:
            return self._console.input(Text(prompt)).strip()
        except EOFError:
            return ""

    def summary(self, answered: Sequence[Answered], seconds: float) -> None:
        """See ``Screen``."""
        self._rest()
        self._say("")
        self._say("The answers", "bold reverse")
        for item in answered:
            self._say(f"{item.agent:12} {plain(item.answer)}", "bold")
            if item.how:
                self._say(f"{'':12} {item.how}", "magenta")
        self._say(f"Done in {seconds:.1f} s; everything that was started is gone again.", "dim")

    def close(self) -> None:
        """See ``Screen``."""
        self._rest()

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style), soft_wrap=True)


class JsonScreen:
    """One JSON object a line: each job with its trace, then how the demo ended."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._store: JobStore | None = None
        self._job_id = ""
        self._traces: dict[str, list[dict[str, Any]]] = {}

    def stage(self, text: str) -> None:
        """Nothing to show."""

    def begin(self, store: JobStore, job_id: str, title: str) -> None:  # noqa: ARG002
        """See ``Screen``."""
        self._store, self._job_id = store, job_id

    def event(self, event: Event) -> None:
        """Nothing to show until the job has ended."""

    def note(self, text: str) -> None:
        """Nothing to show."""

    def end(self) -> None:
        """Keep the trace: at the end of the demo its Redis is gone."""
        if self._store is not None:
            events = self._store.events(self._job_id)
            self._traces[self._job_id] = list(trace_records(self._store, self._job_id, events))

    def ask(self, pause: Pause) -> Decision:
        """The script answers."""
        return decide(pause, SCRIPTED_ANSWER, SCRIPTED_PERSON)

    def summary(self, answered: Sequence[Answered], seconds: float) -> None:
        """See ``Screen``."""
        for item in answered:
            self._write(
                {
                    "job_id": item.job_id,
                    "agent": item.agent,
                    "answer": item.answer,
                    "how": item.how,
                    "trace": self._traces[item.job_id],
                }
            )
        self._write({"ok": True, "answers": len(answered), "seconds": round(seconds, 1)})

    def close(self) -> None:
        """Nothing to leave."""

    def _write(self, value: dict[str, Any]) -> None:
        self._console.print(Text(json.dumps(value, ensure_ascii=False)), soft_wrap=True)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return "somebody"
