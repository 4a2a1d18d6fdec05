"""What a process takes, as far as the system tells (Linux does, under ``/proc``)."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Vital:
    """The most that a process has taken so far.

    Attributes:
        rss_mb: resident memory at its peak, in MB of 1,000,000 bytes.
        threads, files: at the moments of looking.
        cpu_s: seconds of one processor.
    """

    rss_mb: float
    threads: int
    files: int
    cpu_s: float

    @classmethod
    def of(cls, pid: int) -> Vital | None:
        """Look at a process; ``None`` if it has ended, or where the system has no ``/proc``."""
        folder = _PROC / str(pid)
        try:
            status = dict(
                line.split(":", 1) for line in (folder / "status").read_text().splitlines()
            )
            files = sum(1 for _ in (folder / "fd").iterdir())
            peak_kb, threads = status["VmHWM"].split()[0], status["Threads"]
            ticks = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
        except (OSError, KeyError):  # a process that has just ended has no memory
            return None
        cpu_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return cls(int(peak_kb) * 1024 / 1e6, int(threads), files, cpu_s)

    def most(self, earlier: Vital | None) -> Vital:
        """The larger of each."""
        if earlier is None:
            return self
        return Vital(
            max(self.rss_mb, earlier.rss_mb),
            max(self.threads, earlier.threads),
            max(self.files, earlier.files),
            max(self.cpu_s, earlier.cpu_s),
        )


@contextmanager
def open_files(wanted: int) -> Iterator[None]:
    """Let this process and those that it starts open so many files, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
