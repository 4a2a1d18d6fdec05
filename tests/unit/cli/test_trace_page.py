"""``trace --html``: a page in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from api_client.errors import InvalidInput
from tests.support.paused import ended_job
from tests.unit.cli.conftest import Desk
from worker.cli import looking


def test_the_command_writes_a_file(desk: Desk, tmp_path: Path) -> None:
    ended_job(desk.store, "job-1", value="Done.")
    path = tmp_path / "trace.html"
    said = desk.run(looking.trace, "job-1", html=path)
    assert said.out == f"written: {path}\n"
    assert "Done." in path.read_text()
    assert desk.run(looking.trace, "job-1", html=Path("-")).out.startswith("<!doctype html>")
    value = desk.run(looking.trace, "job-1", html=path, json=True).value
    assert value == {"job_id": "job-1", "html": str(path)}
    with pytest.raises(InvalidInput, match="Is a directory"):
        desk.run(looking.trace, "job-1", html=tmp_path)
