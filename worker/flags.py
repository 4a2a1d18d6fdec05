"""What a worker's main process says and its forked children see, in shared anonymous memory.

One byte each: no lock that a killed child could leave taken.
"""

from __future__ import annotations

import mmap


class StopFlag:
    """A flag that is raised or not."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def set(self) -> None:
        """Raise the flag."""
        self._memory[0] = 1

    def clear(self) -> None:
        """Lower the flag."""
        self._memory[0] = 0

    def is_set(self) -> bool:
        """Whether it is raised."""
        return self._memory[0] != 0


class Generation:
    """A number that tells a process whether what it knows is still the latest; wraps at 256."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)
        self._known = 0  # of this process; a child begins with its parent's

    def move_on(self) -> None:
        """There is something newer, which this process knows already."""
        self._memory[0] = (self._memory[0] + 1) % 256
        self._known = self._memory[0]

    def catch_up(self) -> bool:
        """Whether there was something newer; from here on this process is taken to know it."""
        latest = self._memory[0]
        changed, self._known = latest != self._known, latest
        return changed
