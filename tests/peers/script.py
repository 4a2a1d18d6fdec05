"""What a peer's script is asked, what it measures, and the one line of JSON that it prints."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from tests.peers.load import message_count

WARM_UP = 5
"""Steps of a job before the first figure: connects, prepares statements, fills caches."""


class NotDone(Exception):
    """A job did not take its steps: its time would mean nothing."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What to measure, and where.

    Attributes:
        server: URL or address of the peer's server.
        folder: where the server keeps its data, and the script may write.
        one: the steps of single jobs.
        jobs: how many jobs are run at once, of ``steps`` steps each.
        at_once: how many of them a process has under way.
        processes: how many processes run them.
        variant: of what a script can measure in two ways.
    """

    server: str
    folder: Path
    one: tuple[int, ...]
    jobs: int
    steps: int
    at_once: int = 1
    processes: int = 1
    variant: str = ""

    def words(self) -> list[str]:
        """The arguments from which ``read`` makes the same."""
        return [
            f"--server={self.server}",
            f"--folder={self.folder}",
            f"--one={','.join(map(str, self.one))}",
            f"--jobs={self.jobs}",
            f"--steps={self.steps}",
            f"--at-once={self.at_once}",
            f"--processes={self.processes}",
            f"--variant={self.variant}",
        ]

    @classmethod
    def read(cls, words: Sequence[str]) -> Asked:
        """From a script's arguments; ends the program where they are wrong."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--server", required=True)
        parser.add_argument("--folder", type=Path, required=True)
        parser.add_argument("--one", type=_numbers, required=True)
        for name in ("jobs", "steps", "at-once", "processes"):
            parser.add_argument(f"--{name}", type=int, required=True)
        parser.add_argument("--variant", required=True)
        return cls(**vars(parser.parse_args(words)))


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured.

    Attributes:
        one: steps a second of a single job, by its steps.
        stored: bytes that the server kept more after it, by its steps, where that can be told.
        many: steps a second of many jobs at once, where they were run.
        durability: what the server promises of what it has acknowledged.
        versions: of the packages and the server.
    """

    one: dict[int, float]
    stored: dict[int, int]
    many: float | None
    durability: str
    versions: dict[str, str]

    def line(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, line: str) -> Figures:
        """From such a line."""
        found: dict[str, Any] = json.loads(line)
        for name in ("one", "stored"):
            found[name] = {int(steps): figure for steps, figure in found[name].items()}
        return cls(**found)


class Peer(Protocol):
    """What runs jobs on a server that is there."""

    def one(self, steps: int) -> int:
        """Run a job to its end; returns how many messages it then has."""

    def many(self, jobs: int, steps: int) -> float:
        """Run so many jobs to their ends; returns the seconds since all stood ready."""

    def stored(self) -> int | None:
        """The bytes that the server keeps now; ``None``: it cannot be told."""

    def durability(self) -> str:
        """What the server promises, as it says itself where it can be asked."""

    def versions(self) -> dict[str, str]:
        """Of the packages and the server."""


def measure(peer: Peer, asked: Asked) -> Figures:
    """All figures of a peer.

    Raises:
        NotDone: a job did not take its steps.
    """
    run_one(peer, WARM_UP)
    one, stored = {}, {}
    for steps in asked.one:
        before = peer.stored()
        seconds = timed(lambda steps=steps: run_one(peer, steps))  # type: ignore[misc]
        one[steps] = steps / seconds
        after = peer.stored()
        if before is not None and after is not None:
            stored[steps] = after - before
    many = asked.jobs * asked.steps / peer.many(asked.jobs, asked.steps)
    return Figures(one, stored, many, peer.durability(), peer.versions())


def run_one(peer: Peer, steps: int) -> None:
    """Run a single job.

    Raises:
        NotDone: it did not take its steps.
    """
    check(peer.one(steps), steps)


def check(messages: int, steps: int) -> None:
    """Look whether a job has the messages of its steps.

    Raises:
        NotDone: it has others.
    """
    if messages != message_count(steps):
        raise NotDone(f"a job of {steps} steps ended with {messages} messages")


def timed(call: Callable[[], object]) -> float:
    """The seconds that it takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def versions_of(*packages: str) -> dict[str, str]:
    """Of installed packages."""
    return {package: version(package) for package in packages}


def tell(figures: Figures) -> None:
    """Print them; the last line of a script."""
    sys.stdout.write(figures.line() + "\n")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))
