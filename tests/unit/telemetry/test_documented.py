"""The page for operators names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from api_client.survey import Survey
from worker.settings import Settings
from worker.telemetry.gauges import StoreGauges
from worker.telemetry.metrics import MetricsObserver

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "operations.md").read_text()


def test_each_metric_is_described_and_no_other() -> None:
    observer = MetricsObserver(CollectorRegistry())
    counted = {
        f"{metric._name}_total" if metric._type == "counter" else metric._name
        for metric in vars(observer).values()
        if hasattr(metric, "describe")
    }
    measured = {family.name for family in StoreGauges(Survey).collect()}
    assert set(re.findall(r"`(stepkeeper_\w+)`", PAGE)) == counted | measured


def test_each_setting_that_is_named_exists() -> None:
    known = {f"STEPKEEPER_{name.upper()}" for name in Settings.model_fields}
    named = set(re.findall(r"STEPKEEPER_[A-Z][A-Z_]*[A-Z]", PAGE))
    assert named <= known
    assert {"STEPKEEPER_LOG_FORMAT", "STEPKEEPER_METRICS_PORT", "STEPKEEPER_OTEL"} <= named
