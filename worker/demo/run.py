"""Starting the demo, and ending it whatever happens."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from rich.console import Console

from api_client.errors import StepkeeperError
from worker.demo.play import play
from worker.demo.screen import JsonScreen, Screen, TerminalScreen
from worker.demo.stage import Stage
from worker.rendering import make_console

FAILED = 1
INTERRUPTED = 128 + signal.SIGINT


def run_demo(
    *, real: bool = False, json_output: bool = False, console: Console | None = None
) -> int:
    """Show three agents at work on real parts; leaves nothing behind.

    Starts a valkey-server with an append-only file and a worker process, runs a job of each
    example agent, kills the worker in the middle of one and starts another, and has a pause
    answered: at the terminal, or by the script where there is none.

    Args:
        real: ask the model of ``LLM_API_KEY``, ``LLM_BASE_URL`` and ``LLM_MODEL``, not a script.
        json_output: JSON lines in place of traces.
        console: where to print; standard output if not given.

    Returns an exit code: 0 if everything was shown, 1 if not (the reason is on standard error),
    130 after Ctrl-C.
    """
    console = console or make_console()
    screen: Screen = JsonScreen(console) if json_output else TerminalScreen(console)
    try:
        with _terminable():
            _run(screen, real=real)
    except KeyboardInterrupt:
        screen.close()
        _complain("stopped; everything that was started is gone again", json_output)
        return INTERRUPTED
    except (StepkeeperError, OSError, TimeoutError) as error:
        screen.close()
        _complain(str(error), json_output)
        return FAILED
    finally:
        screen.close()
    return 0


def _run(screen: Screen, *, real: bool) -> None:
    begin = time.monotonic()
    screen.stage("a valkey-server with an append-only file starts")
    with Stage(real=real) as stage:
        answered = play(stage, screen)
        screen.stage("cleaning up")
    screen.summary(answered, time.monotonic() - begin)


def _complain(text: str, json_output: bool) -> None:
    line = json.dumps({"ok": False, "error": text}) if json_output else f"stepkeeper demo: {text}"
    sys.stderr.write(f"{line}\n")


@contextmanager
def _terminable() -> Iterator[None]:
    """Inside, SIGTERM ends the program as an exception does, so that everything is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Any = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
