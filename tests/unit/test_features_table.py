"""The table of features in the docs: it lists what the tests try, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.features_table import NOT_RUN, read_table, table
from tests.support.places import PLACES

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_each_feature_at_each_place_and_all_passed(tmp_path: Path) -> None:
    """After a change of the features: ``make features``."""
    target = tmp_path / "features.json"
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.features", "-n", "0"]
    options = [f"--features={target}", "--collect-only", "-q", "tests/acceptance/features"]
    subprocess.run([*command, *options], cwd=ROOT, check=True, capture_output=True)
    cells = json.loads(target.read_text())
    wanted = {(cell["section"], cell["feature"], cell["place"]) for cell in cells}
    shown = read_table((ROOT / "docs/features.md").read_text())
    assert shown.keys() == wanted
    assert len(wanted) == len(cells), "two tests fill one cell"
    assert {key: sign for key, sign in shown.items() if sign != "✓"} == {}


def test_a_cell_says_what_became_of_its_test() -> None:
    here, there, nowhere = PLACES[:3]
    cells = [
        {"section": "Canvas", "feature": "chain", "place": here, "outcome": "passed"},
        {"section": "Canvas", "feature": "chain", "place": there, "outcome": "failed"},
        {"section": "Canvas", "feature": "chord", "place": nowhere},
    ]
    shown = read_table(table(cells))
    assert shown["Canvas", "chain", here] == "✓"
    assert shown["Canvas", "chain", there] == "✗"
    assert shown["Canvas", "chain", nowhere] == NOT_RUN
    assert shown["Canvas", "chord", nowhere] == NOT_RUN
