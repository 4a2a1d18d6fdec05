"""Being interrupted for sure.

Python raises ``KeyboardInterrupt`` wherever the main thread happens to be. If that is in a
destructor or a callback of the interpreter, the error is printed and forgotten, and the program
runs on. So the signal is also noted, and the driver looks at the note at each of its ticks.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

_asked = threading.Event()


def _note(_number: int, _frame: FrameType | None) -> None:
    _asked.set()
    raise KeyboardInterrupt


def listen() -> None:
    """End as orderly by SIGTERM as by Ctrl-C, and by neither in vain."""
    _asked.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _note)


def check() -> None:
    """Raise again what may have been lost.

    Raises:
        KeyboardInterrupt: a signal has come.
    """
    if _asked.is_set():
        raise KeyboardInterrupt
