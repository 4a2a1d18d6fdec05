"""The crash proof itself, small; and that it leaves nothing behind, whatever becomes of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.workers import ROOT, eventually
from worker.chaos.options import PROFILES
from worker.embedded import find_server

PROGRAM = (sys.executable, "-m", "worker.cli", "chaos", "--json")
LIMIT_S = 110
WORKERS = 2


@contextmanager
def chaos(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command, running in a session of its own; its temporary files lie in ``tmp_path``."""
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def workers_of(folder: Path) -> list[str]:
    """The Celery workers whose environment names a ledger in this folder."""
    listing = subprocess.run(
        ["ps", "axeww", "-o", "pid=,command="], capture_output=True, text=True, check=True
    )
    return [line for line in listing.stdout.splitlines() if f"LEDGER={folder}" in line]


def _report(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    with chaos(tmp_path, *arguments) as process:
        out, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, out + errors
    report: dict[str, Any] = json.loads(out)
    return report


@pytest.mark.slow
@pytest.mark.parametrize(("pool", "concurrency", "seed"), [("threads", 16, 1), ("prefork", 3, 2)])
def test_nothing_is_lost_and_nothing_doubled(
    pool: str, concurrency: int, seed: int, tmp_path: Path
) -> None:
    """Criterion of the crash proof, on 40 jobs; the JSON says so by its promised keys."""
    size = ("--profile", "small", "--pool", pool, "--concurrency", str(concurrency))
    report = _report(tmp_path, *size, "--seed", str(seed))
    zero = ("lost", "once_doubled", "idempotent_doubled", "replies_paid_twice", "effects_missing")
    assert {name: report[name] for name in zero} == dict.fromkeys(zero, 0)
    assert report["lost_jobs"] == {}
    ends = ("finished", "paused", "failed", "cancelled")
    assert report["submitted"] == sum(report[name] for name in ends) == PROFILES["small"]["jobs"]
    assert (report["kills"], report["redis_restarts"], report["seed"]) == (6, 1, seed)
    assert report["jobs_struck"] > 0
    assert report["recovery_s"]["p50"] <= report["recovery_s"]["max"]
    assert report["signals_refused"] * 2 == report["signals"] > 0
    for effects in report["effects"].values():
        assert effects["seen"] == effects["expected"] > 0
    assert list(tmp_path.iterdir()) == []


def _begin(tmp_path: Path) -> tuple[str, ...]:
    return ("--profile", "small", "--kills", "0", "--keep", str(tmp_path / "kept"))


def _wait_until_running(folder: Path, process: subprocess.Popen[str]) -> None:
    def running() -> bool:
        assert process.poll() is None, process.communicate()
        return len(workers_of(folder)) == WORKERS

    eventually(running, "both workers are running")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_takes_everything_with_it(number: int, tmp_path: Path) -> None:
    with chaos(tmp_path, "--profile", "small") as process:
        folder = eventually(lambda: next(tmp_path.glob("*"), None), "a folder")
        _wait_until_running(folder, process)
        process.send_signal(number)
        assert process.wait(60) == 130
    assert workers_of(folder) == []
    assert list(tmp_path.iterdir()) == []


def test_killed_it_leaves_no_process_behind(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with chaos(tmp_path, *_begin(tmp_path)) as process:
        _wait_until_running(folder, process)
        server = find_server(folder / "redis")
        assert server is not None
        process.kill()
        process.wait(60)
    eventually(lambda: not workers_of(folder), "no worker is left")
    eventually(lambda: find_server(folder / "redis") is None, "no Redis is left")


def test_a_folder_with_an_earlier_run_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "ledger.sqlite3").touch()
    with chaos(tmp_path, *_begin(tmp_path)) as process:
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2
    assert "earlier run" in json.loads(errors.splitlines()[-1])["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--jobs", "0"], "jobs=0: must be at least 1"), (["--pool", "gevent"], "gevent")],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    with chaos(tmp_path, *arguments) as process:
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2
    assert message in json.loads(errors)["message"]
