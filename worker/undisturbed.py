"""Blocks in which a Ctrl-C waits: what is acquired has an owner before anything is raised."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_PUT_OFF = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put off Ctrl-C and SIGTERM to the end of the block; keep it short.

    Between the making of a folder or a process and the moment at which somebody holds it, an
    interrupt would leave it to nobody.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is interrupted
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in _PUT_OFF}
    ours = [number for number, handler in before.items() if callable(handler)]
    for number in ours:
        signal.signal(number, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
    for late in came:
        signal.raise_signal(late)


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A new folder that is gone after the block, whenever the interrupt comes."""
    with ExitStack() as kept:
        with undisturbed():
            folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix=prefix)))
        yield folder
