"""What a benchmark is asked and what it prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from api_client.errors import InvalidInput
from worker.bench import plot
from worker.bench.measuring import row
from worker.bench.options import Options
from worker.bench.report import shown, tables
from worker.bench.run import PARTS
from worker.bench.slow_model import STEPS, completion
from worker.bench.vital import Vital, open_files
from worker.cli import benching
from worker.rendering import make_console

MACHINE = {
    "cpus": 2,
    "model": "a processor",
    "load_average": [0.5, 0.4, 0.3],
    "python": "3.11",
    "server": "valkey 9",
}
FOUND: dict[str, Any] = {
    "machine": MACHINE,
    "steps": [row([9000.0, 9500.0], [4000.0, 4100.0], k=10, fsync="everysec")],
    "submit": [row([900.0], [400.0], how="single", fsync="always")],
}


def test_the_command_knows_every_part() -> None:
    assert list(PARTS) == [part.value for part in benching.Part]
    assert set(plot.UNITS) == set(PARTS)


@pytest.mark.parametrize(
    ("options", "samples"),
    [(Options(), 5), (Options(quick=True), 3), (Options(quick=True, repeat=7), 7)],
)
def test_how_often_is_measured(options: Options, samples: int) -> None:
    assert options.samples == samples


def test_never_is_not_often_enough() -> None:
    with pytest.raises(InvalidInput, match="repeat=0: must be at least 1"):
        Options(repeat=0)


def test_what_was_found_is_json() -> None:
    assert json.loads(json.dumps(FOUND)) == FOUND


def test_tables_hold_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console(sys.stdout)
    for table in tables(FOUND):
        console.print(table)
    printed = capsys.readouterr().out
    for text in ("a processor", "9,250", "4,050", "everysec", "single", "floor_spread"):
        assert text in printed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.6, "12,346"),
        (0.25, "0.25"),
        (100_000, "100,000"),
        (5000, "5000"),
        ([1.5, 2.0], "1.5 … 2"),
    ],
)
def test_figures_as_people_read_them(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    plot.check_plot(tmp_path / "found.png")
    plot.draw(FOUND, tmp_path / "found.png")
    assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["found.pdf", "missing/found.png"])
def test_a_picture_that_cannot_be_is_refused_before_anything_is_measured(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(InvalidInput, match="--png"):
        plot.check_plot(tmp_path / name)


def test_without_the_extra_its_name_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(plot.PlotMissing, match=r"pip install 'stepkeeper\[bench\]'"):
        plot.check_plot(tmp_path / "found.png")


def test_the_slow_model_calls_a_tool_until_its_last_step() -> None:
    history = [{"role": "user", "content": "go"}]
    for number in range(STEPS):
        head, _, body = completion(history).partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        message = json.loads(body)["choices"][0]["message"]
        assert ("tool_calls" in message) == (number < STEPS - 1)
        history.append(message)


def test_the_vital_signs_are_the_most_of_all_looks() -> None:
    first, second = Vital(10.0, 5, 7, 1.0), Vital(8.0, 6, 3, 2.0)
    assert second.most(first) == Vital(10.0, 6, 7, 2.0)
    assert second.most(None) == second


def test_more_files_may_be_open_for_a_while() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open_files(before[0] + 1):
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= before[0]
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
