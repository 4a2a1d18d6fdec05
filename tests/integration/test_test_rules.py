"""What our test runs see to: no skips in CI, and warnings are errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SKIPS = """
import pytest

def test_that_skips():
    pytest.skip("there is no Chromium here")

@pytest.mark.skipif(True, reason="not on this machine")
def test_that_is_marked():
    pass

@pytest.mark.xfail(strict=True)
def test_that_is_known_to_fail():
    raise AssertionError

def test_that_passes():
    pass
"""

SKIPPED_FILE = """
import pytest
pytest.importorskip("a_module_that_is_not_there")
def test_never_seen():
    pass
"""

WARNS = """
import warnings
def test_that_warns():
    warnings.warn("old ways")
"""


def run_pytest(folder: Path, source: str, *, ci: bool) -> tuple[int, str]:
    """Run ``source`` under our conftest and settings; the exit code and what was printed."""
    (folder / "test_sample.py").write_text(source)
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    if ci:
        environment["CI"] = "true"
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *settings, str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_skips_pass_on_a_developers_machine(tmp_path: Path) -> None:
    code, printed = run_pytest(tmp_path, SKIPS, ci=False)
    assert code == 0, printed
    assert "1 passed, 2 skipped, 1 xfailed" in printed


def test_skips_fail_in_ci_and_say_what_was_missing(tmp_path: Path) -> None:
    code, printed = run_pytest(tmp_path, SKIPS, ci=True)
    assert code == 1, printed
    assert "1 failed, 1 passed, 1 xfailed, 1 error" in printed
    assert "there is no Chromium here" in printed


def test_a_file_that_skips_itself_fails_in_ci(tmp_path: Path) -> None:
    code, printed = run_pytest(tmp_path, SKIPPED_FILE, ci=True)
    assert code not in (0, 5), printed
    assert "a_module_that_is_not_there" in printed


def test_warnings_are_errors(tmp_path: Path) -> None:
    code, printed = run_pytest(tmp_path, WARNS, ci=False)
    assert code == 1, printed
    assert "old ways" in printed
