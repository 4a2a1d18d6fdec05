"""Writes ``docs/features.md`` from what a run of ``make features`` found.

python -m tests.support.features_table build/features.json docs/features.md
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.support.features import Cell
from tests.support.places import PLACES
from tests.support.rabbitmq import server_program
from worker.embedded.server import server_binary

SIGNS = {"passed": "✓", "failed": "✗", "error": "✗"}
NOT_RUN = "–"
PACKAGES = {"celery": "Celery", "kombu": "kombu", "redis": "redis-py", "sqlalchemy": "SQLAlchemy"}
HEADINGS = {"redis": "Redis", "rabbitmq": "RabbitMQ", "threads": "threads", "prefork": "prefork"}

INTRODUCTION = """\
# Celery's features, as tested

What a Celery application does with a task it may do with a job. Each cell below was filled by a
test with real workers, never by hand: `make features` runs the tests in
`tests/acceptance/features` over each broker with each pool, and writes this page. Jobs are
submitted in turns by `agent.shop.s(…)`, in an app that has the agent, and by name, in one that
knows nothing but Celery. ✓ passed, ✗ failed, – not run.

{produced}

Not kept, and refused or said:

- `time_limit` and `soft_time_limit` are refused at submission: a job lives over many messages.
  Set the agent's `max_active_s`, a tool's `timeout` or the model's `total_timeout`.
- `expires` is about the beginning: a job that a worker has begun in time goes on, however long it
  pauses. RabbitMQ itself throws away a message of plain `send_task` that has expired: nobody hears
  of such a job again, as of any task.
- The result backends `rpc://` and `cache+memory://` are refused when a worker starts: one hands a
  result to one program, once; the other keeps it in the worker.
- Celery's database backend pickles what it stores: who may write to that database may run code in
  whoever reads a result.
"""


def produced(now: datetime) -> str:
    """When, and with which versions."""
    valkey = _output(str(server_binary()), "--version").split("v=")[1].split()[0]
    parts = [
        f"Python {platform.python_version()}",
        *(f"{name} {version(package)}" for package, name in PACKAGES.items()),
        f"Valkey {valkey}",
        f"RabbitMQ {_rabbitmq()}",
    ]
    return f"Last run: {now:%Y-%m-%d}, stepkeeper {version('stepkeeper')},\n{', '.join(parts)}."


def _rabbitmq() -> str:
    program = server_program()
    if program is None:
        return "not installed"
    return _output(str(Path(program).with_name("rabbitmqctl")), "version").strip()


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def table(cells: list[Cell]) -> str:
    """The sections, a table each: a row a feature, a column a place."""
    sections: dict[str, dict[str, dict[str, str]]] = {}
    for cell in cells:
        row = sections.setdefault(cell["section"], {}).setdefault(cell["feature"], {})
        row[cell["place"]] = SIGNS.get(cell.get("outcome", ""), NOT_RUN)
    return "\n".join(_section(name, rows) for name, rows in sections.items())


def _section(name: str, rows: dict[str, dict[str, str]]) -> str:
    heads = [", ".join(HEADINGS[part] for part in place.split("-")) for place in PLACES]
    lines = [f"| | {' | '.join(heads)} |", f"|-|{'-|' * len(PLACES)}"]
    for feature, row in rows.items():
        lines.append(f"| {feature} | {' | '.join(row.get(place, NOT_RUN) for place in PLACES)} |")
    return "\n".join([f"## {name}", "", *lines, ""])


def read_table(text: str) -> dict[tuple[str, str, str], str]:
    """What a page says: by section, feature and place."""
    found: dict[tuple[str, str, str], str] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and not line.startswith("| |"):
            feature, *signs = (part.strip() for part in line.strip("|").split("|"))
            found.update(
                {(section, feature, p): sign for p, sign in zip(PLACES, signs, strict=True)}
            )
    return found


def main(source: str, target: str) -> None:
    """Write the page."""
    cells = json.loads(Path(source).read_text())
    head = INTRODUCTION.format(produced=produced(datetime.now(UTC)))
    Path(target).write_text(f"{head}\n{table(cells)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
