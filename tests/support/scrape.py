"""Reading a worker's metrics as Prometheus does."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from tests.support.workers import RunningWorker


@dataclass(frozen=True)
class Sample:
    """One value that was exposed."""

    name: str
    labels: dict[str, str]
    value: float


class Scrape:
    """Everything that one endpoint exposes at one moment."""

    def __init__(self, url: str) -> None:
        with urllib.request.urlopen(url, timeout=10) as response:
            self.text = response.read().decode()
        self.samples = list(self._read())

    def _read(self) -> Iterator[Sample]:
        for family in text_string_to_metric_families(self.text):
            for sample in family.samples:
                yield Sample(sample.name, dict(sample.labels), sample.value)

    def sum(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels."""
        found = [s.value for s in self.samples if s.name == name]
        assert found, f"{name} is not exposed:\n{self.text}"
        return sum(
            s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()
        )


def metrics_url(worker: RunningWorker) -> str:
    """Where a worker with ``STEPKEEPER_METRICS_PORT=0`` says its metrics are."""
    worker.wait_line("metrics at http://")
    found = re.search(r"metrics at (http://[^\s\"]+)", worker.log)
    assert found, worker.log
    return found[1]
