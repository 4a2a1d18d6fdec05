"""Forking a process that has threads: none of ours may hold a library's lock at that moment.

A pool child is a copy of the main process, with every lock as it was and without the threads that
would release them. Where a thread of ours was inside kombu's or redis-py's connection pools at the
moment of the fork, the child waited for ever as soon as it used or closed its copy.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


@contextmanager
def no_fork() -> Iterator[None]:
    """This process does not fork while the block runs: keep it short."""
    with _lock:
        yield
