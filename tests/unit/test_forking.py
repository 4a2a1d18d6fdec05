"""A fork waits until no thread of ours is inside a library."""

from __future__ import annotations

import os
import threading

import pytest

from worker.forking import no_fork


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_waits_and_the_child_is_free() -> None:
    """The child finds what the thread was doing done, and the lock open."""
    inside, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def use_a_library() -> None:
        with no_fork():
            inside.set()
            go_on.wait(10)
            done.append("done")

    thread = threading.Thread(target=use_a_library)
    thread.start()
    assert inside.wait(10)
    threading.Timer(0.1, go_on.set).start()
    pid = os.fork()
    if pid == 0:
        with no_fork():
            os._exit(0 if done else 1)
    _, status = os.waitpid(pid, 0)
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
