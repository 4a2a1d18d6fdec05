"""Two Celery apps in one program: each has its own broker, store, settings and agents."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from api_client import AgentClient
from tests.support.workers import ROOT, running

PROGRAM = """
from tests.support.two_apps import shop

first = shop("first", {first!r}, 1000)
second = shop("second", {second!r}, 2000)
"""


def test_each_app_enqueues_and_runs_its_own_jobs(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = redis_url.rpartition("/")[0]
    urls = {"first": f"{server}/1", "second": f"{server}/2"}
    (tmp_path / "two_shops.py").write_text(PROGRAM.format(**urls))
    monkeypatch.syspath_prepend(tmp_path)
    program = importlib.import_module("two_shops")
    results = {
        name: getattr(program, name).tasks["agent.shop"].delay(f"Who are you, {name}?")
        for name in urls
    }
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    with (
        running(urls["first"], app="two_shops:first", name="first@test", env=env),
        running(urls["second"], app="two_shops:second", name="second@test", env=env),
    ):
        answers = {name: result.get(timeout=30) for name, result in results.items()}
    assert answers == {name: f"I am the {name}." for name in urls}
    kept = {name: AgentClient(url).get(results[name].id).spec for name, url in urls.items()}
    assert {name: spec.retention_s for name, spec in kept.items()} == {
        "first": 1000,
        "second": 2000,
    }
    assert {name: spec.input for name, spec in kept.items()} == {
        name: f"Who are you, {name}?" for name in urls
    }
