"""``stepkeeper bench`` as it is typed: figures under their names, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LIMIT_S = 110
MEASURING_LIMIT_S = 400
"""On a machine with much else to do; a quiet one takes a quarter of a minute."""
NAMED = {
    "steps": {
        "k",
        "fsync",
        "steps_per_s",
        "round_trips_per_step",
        "stored_bytes_ratio",
        "aof_bytes_ratio",
        "growth",
    },
    "latency": {"p50_ms", "p95_ms"},
}
EVERY_ROW = {"floor", "value", "ratio"}
MACHINE = {"cpus", "model", "python", "celery", "redis_py", "server", "openai", "stepkeeper"}


@contextmanager
def bench(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "worker.cli", "bench", *words],
        env=os.environ | {"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()  # the guards of what it has started end with it


@pytest.mark.slow
@pytest.mark.timeout(MEASURING_LIMIT_S + 20)
def test_each_row_holds_what_it_must(tmp_path: Path) -> None:
    with bench(tmp_path, "steps", "latency", "--quick", "--repeat", "1", "--json") as process:
        out, errors = process.communicate(timeout=MEASURING_LIMIT_S)
    assert process.returncode == 0, errors
    found = json.loads(out)
    assert set(found) == {"machine", *NAMED}
    assert set(found["machine"]) >= MACHINE | {"load_average"}
    for part, names in NAMED.items():
        for row in found[part]:
            assert set(row) >= EVERY_ROW | names
            assert row["ratio"] == pytest.approx(row["value"] / row["floor"], rel=0.01)
    assert {(row["k"], row["fsync"]) for row in found["steps"]} == {
        (k, fsync) for k in (10, 100, 500) for fsync in ("everysec", "always")
    }
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    with bench(tmp_path, "recover", "--quick") as process:
        assert process.stderr is not None
        assert "recover" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_is_none_is_refused(tmp_path: Path) -> None:
    with bench(tmp_path, "stairs") as process:
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2
    assert "'stairs' is not one of 'steps', 'throughput'" in errors
