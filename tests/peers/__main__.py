"""python -m tests.peers: measure all of them in turns, and print a table; see ``make peers``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from tests.peers.contenders import CONTENDERS
from tests.peers.rounds import measure_in_turns
from tests.peers.table import compared, rows, table
from worker.bench.machine import describe_machine
from worker.bench.measuring import rounded
from worker.bench.room import room

ROUNDS = 3


def main(words: Sequence[str]) -> int:
    """Measure and print; 1 if one that is installed could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    parser.add_argument("names", nargs="*", help="who: each whose name has this in it; all")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="samples of each figure")
    parser.add_argument("--json", action="store_true", help="one object instead of a table")
    asked = parser.parse_args(words)
    chosen = [
        contender
        for contender in CONTENDERS
        if not asked.names or any(name in contender.name for name in asked.names)
    ]
    if not chosen or asked.rounds < 1:
        parser.error("nothing to measure")
    with room() as here:
        machine = describe_machine(here.redis)
    found = measure_in_turns(chosen, asked.rounds, _say)
    machine["load_average_after"] = [rounded(load) for load in os.getloadavg()]
    of = rows(found)
    result = {"machine": machine, "rounds": asked.rounds, "rows": of, "compared": compared(of)}
    _tell(result, as_json=asked.json)
    return 1 if any(one.failed for one in found) else 0


def _tell(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    lines = [f"{name}: {value}" for name, value in result["machine"].items()]
    lines += ["", *table(result["rows"]), ""]
    lines += [f"{name}: {value}" for name, value in result["compared"].items()]
    sys.stdout.write("\n".join(lines) + "\n")


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
