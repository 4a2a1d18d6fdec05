"""What a benchmark found, as a picture: a panel a part, value beside floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api_client.errors import InvalidInput, StepkeeperError
from worker.bench.measuring import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = (5.0, 3.2)
UNITS = {
    "steps": "steps/s",
    "throughput": "jobs/s",
    "waiting": "s",
    "latency": "ms",
    "paused": "ms to resume",
    "recover": "s",
    "submit": "jobs/s",
}
_NAMES = ("k", "pool", "workers", "jobs", "how", "fsync")


class PlotMissing(StepkeeperError):
    """The library that draws is not installed; names the extra that brings it."""


def check_plot(path: Path) -> None:
    """Look before anything is measured whether a picture can be drawn.

    Raises:
        PlotMissing: matplotlib is not installed.
        InvalidInput: the file's name does not end in .png, or its folder is missing.
    """
    try:
        import matplotlib as _  # noqa: F401, ICN001
    except ImportError:
        raise PlotMissing(
            "--png needs matplotlib, which is not installed: pip install 'stepkeeper[bench]'"
        ) from None
    if path.suffix != ".png":
        raise InvalidInput(f"--png {path}: the name must end in .png")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"--png {path}: there is no folder {path.parent}")


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Draw every part into one file.

    Raises:
        InvalidInput: the file cannot be written.
    """
    from matplotlib.figure import Figure

    parts = [name for name in found if name != "machine"]
    figure = Figure(figsize=(PANEL[0], PANEL[1] * len(parts) + 0.6), layout="constrained")
    panels = figure.subplots(len(parts), squeeze=False)
    for name, panel in zip(parts, panels.flat, strict=True):
        _panel(panel, name, found[name])
    figure.suptitle(_title(found["machine"]), fontsize=8)
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise InvalidInput(f"--png {path}: cannot be written: {error.strerror}") from None


def _panel(panel: Axes, name: str, rows: Sequence[Row]) -> None:
    for shift, kind, color in ((-0.2, "floor", "#b8b8b8"), (0.2, "value", "#2f6db3")):
        middles = [row[kind] for row in rows]
        spread = [
            [row[kind] - row[f"{kind}_spread"][0] for row in rows],
            [row[f"{kind}_spread"][1] - row[kind] for row in rows],
        ]
        places = [number + shift for number in range(len(rows))]
        panel.bar(places, middles, 0.38, label=kind, color=color)
        panel.errorbar(places, middles, yerr=spread, fmt="none", ecolor="black", capsize=2)
    panel.set_xticks(range(len(rows)), [_label(row) for row in rows], fontsize=6)
    panel.set_title(name, fontsize=9)
    panel.set_ylabel(UNITS[name], fontsize=8)
    panel.legend(fontsize=6)


def _label(row: Row) -> str:
    return "\n".join(f"{name} {row[name]}" for name in _NAMES if name in row)


def _title(machine: Mapping[str, Any]) -> str:
    return (
        f"{machine['cpus']} × {machine['model']}, load {machine['load_average'][0]:g}, "
        f"Python {machine['python']}, {machine['server']}"
    )
