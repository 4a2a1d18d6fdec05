"""A pytest plugin: what became of each feature at each place, as JSON.

``pytest -p tests.support.features --features=FILE tests/acceptance/features`` runs every feature
at every place. With ``--collect-only`` the file says only which there are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

Cell = dict[str, Any]
"""``section``, ``feature`` and ``place``; once it was run, ``outcome`` and ``seconds``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--features``."""
    parser.addoption("--features", metavar="FILE", help="write what became of each feature")


def pytest_configure(config: pytest.Config) -> None:
    """The main process writes; those that xdist starts have everything told to it."""
    if config.getoption("features") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(config.getoption("features"))))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say in each report which cell of the table it fills."""
    for item in items:
        if (cell := cell_of(item)) is not None:
            item.user_properties.append(("cell", cell))


def cell_of(item: pytest.Item) -> Cell | None:
    """The cell of the table that a test fills, if it fills one."""
    marker = item.get_closest_marker("feature")
    if marker is None:
        return None
    section = (getattr(item, "module").__doc__ or "").partition("\n")[0].rstrip(".")  # noqa: B009
    params = getattr(item, "callspec").params  # noqa: B009
    return {
        "section": section,
        "feature": marker.args[0].format(**params),
        "place": params["place_name"],
    }


class Recorder:
    """Collects the cells and writes them at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cells: dict[str, Cell] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """All that there are; with xdist, this process collects none itself."""
        for item in session.items:
            if (cell := cell_of(item)) is not None:
                self._cells[item.nodeid] = cell

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test is over; the worst outcome of the three counts."""
        cell = dict(report.user_properties).get("cell")
        if cell is None:
            return
        known = self._cells.setdefault(report.nodeid, dict(cell))  # type: ignore[call-overload]
        known["seconds"] = round(known.get("seconds", 0.0) + report.duration, 2)
        if known.get("outcome", "passed") == "passed":
            known["outcome"] = report.outcome

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        cells = sorted(self._cells.values(), key=lambda cell: cell["section"])
        self._path.write_text(json.dumps(cells, indent=1, ensure_ascii=False))
