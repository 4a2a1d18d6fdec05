"""The dashboard and the alerts that are shipped, against the metrics that a worker exposes."""

from __future__ import annotations

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from api_client import AgentClient
from api_client.survey import Survey
from tests.support.scrape import metrics_url
from tests.support.workers import running
from worker.flow.base import Limit, Use
from worker.telemetry.gauges import StoreGauges
from worker.telemetry.metrics import MetricsObserver

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}
_WORDS = {"by", "le", "without", "on", "ignoring"}


def everything() -> dict[str, set[str]]:
    """Label names of each series that there can be."""
    registry = CollectorRegistry()
    observer = MetricsObserver(registry)
    survey = Survey(Counter({("a", "running"): 1}), {("a", "approval"): [1.0]})
    known: dict[str, set[str]] = {}
    for metric in vars(observer).values():
        if hasattr(metric, "describe"):
            for suffix in _SUFFIXES[metric._type]:
                labels = {*metric._labelnames, *({"le"} if suffix == "_bucket" else ())}
                known[metric._name + suffix] = labels
    limits = {"m": (Limit(rpm=1), Use())}
    for family in StoreGauges(lambda: survey, limits=lambda: limits).collect():
        known[family.name] = {name for sample in family.samples for name in sample.labels}
    return known


def dashboard() -> Iterator[tuple[str, str]]:
    """Every expression with its legend."""
    board = json.loads((DEPLOY / "grafana" / "stepkeeper.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(
                r"label_values\((\w+), (\w+)\)", variable["query"]
            ).groups()  # type: ignore[union-attr]
            yield f"sum by ({label}) ({metric})", ""


def alerts() -> Iterator[tuple[str, str]]:
    """Every expression with its texts."""
    for rule in rules():
        texts = json.dumps(rule["annotations"])
        yield rule["expr"], re.sub(r"\$labels\.(\w+)", r"\1", texts)


def rules() -> list[dict[str, Any]]:
    """The alerts as Prometheus reads them."""
    text = (DEPLOY / "prometheus" / "alerts.yml").read_text()
    loaded = yaml.safe_load(text)  # type: ignore[no-untyped-call]
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def labels_named(expression: str, legend: str) -> set[str]:
    """The labels that an expression selects or groups by, and a text shows."""
    named = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression))
    for group in re.findall(r"by \(([^)]*)\)", expression):
        named |= {name.strip() for name in group.split(",")}
    return named | set(re.findall(r"{{\s*(\w+)\s*}}", legend))


@pytest.mark.parametrize(("expression", "text"), [*dashboard(), *alerts()])
def test_every_metric_and_label_that_is_named_exists(expression: str, text: str) -> None:
    known = everything()
    metrics = re.findall(r"stepkeeper_\w+", expression)
    assert metrics
    assert set(metrics) <= set(known)
    allowed = set().union(*(known[metric] for metric in metrics))
    assert labels_named(expression, text) <= allowed
    assert expression.count("(") == expression.count(")")


def test_the_dashboard_leaves_out_no_metric() -> None:
    shown = " ".join(expression for expression, _ in dashboard())
    bases = {re.sub(r"_(bucket|count|sum)$", "", name) for name in everything()}
    assert {base for base in bases if base not in shown} == set()


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    board = json.loads((DEPLOY / "grafana" / "stepkeeper.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)


def test_alerts_say_what_to_do() -> None:
    found = rules()
    assert len({rule["alert"] for rule in found}) == len(found) >= 10
    for rule in found:
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_real_worker_exposes_exactly_these_metrics(redis_url: str, pool: str) -> None:
    with running(redis_url, pool=pool, env={"STEPKEEPER_METRICS_PORT": "0"}) as worker:
        client = AgentClient(redis_url)
        job = client.submit("plan", "look @quick", check_agent=False)
        client.wait(job)
        worker.wait_line("succeeded")
        with urllib.request.urlopen(metrics_url(worker), timeout=10) as response:
            text = response.read().decode()
    exposed = set(re.findall(r"^# TYPE (stepkeeper_\w+)", text, re.MULTILINE))
    exposed = {name for name in exposed if not name.endswith("_created")}
    known = {re.sub(r"_(bucket|count|sum)$", "", name) for name in everything()}
    # What has not happened in any process has no file to stand in.
    assert exposed <= known if pool == "prefork" else exposed == known
    assert {
        "stepkeeper_commit_seconds",
        "stepkeeper_jobs_ended_total",
        "stepkeeper_jobs",
    } <= exposed
    for line in text.splitlines():
        if line.startswith("stepkeeper_") and "_created" not in line:
            name, labels = re.match(r"(\w+)(?:{(.*)})?", line).groups()  # type: ignore[union-attr]
            assert set(re.findall(r"(\w+)=\"", labels or "")) == everything()[name]
