"""Serving metrics: the address, the files of a pool's children, and what is missing."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from api_client.errors import InvalidInput
from api_client.survey import Survey
from tests.support.scrape import Scrape
from worker.settings import Settings
from worker.store.memory import MemoryStore
from worker.telemetry.observer import NOBODY, Several, StoreCalled
from worker.telemetry.setup import Telemetry


class Store(MemoryStore):
    """With nothing in it."""

    def survey(self) -> Survey:
        """Nothing."""
        return Survey()


def test_a_program_that_only_submits_observes_nothing() -> None:
    assert Telemetry(Settings(metrics_port=0)).observer(Store()) is NOBODY


def test_a_worker_without_settings_logs_and_no_more() -> None:
    telemetry = Telemetry(Settings())
    telemetry.start("thread")
    observer = telemetry.observer(Store())
    assert isinstance(observer, Several)
    assert [type(each).__name__ for each in observer.observers] == ["LogObserver"]
    telemetry.expose(Store())
    telemetry.close()


def test_metrics_are_served_until_the_worker_ends(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry(Settings(metrics_port=0))
    telemetry.start("thread")
    telemetry.observer(Store()).note(StoreCalled("commit", 2.0))
    with caplog.at_level(logging.INFO):
        telemetry.expose(Store())
    url = caplog.records[-1].getMessage().removeprefix("metrics at ")
    assert url.startswith("http://127.0.0.1:")
    assert Scrape(url).sum("stepkeeper_store_call_seconds_count", call="commit") == 1
    telemetry.close()
    with pytest.raises(OSError, match="refused"):
        Scrape(url)


def test_a_port_that_is_taken_is_refused_by_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        telemetry = Telemetry(Settings(metrics_port=port))
        telemetry.start("thread")
        telemetry.observer(Store())
        with pytest.raises(InvalidInput, match=f"STEPKEEPER_METRICS_PORT={port}: 127.0.0.1"):
            telemetry.expose(Store())


@pytest.mark.parametrize(
    ("setting", "module", "extra"),
    [("metrics_port=0", "prometheus_client", "metrics"), ("otel=True", "opentelemetry", "otel")],
)
def test_an_extra_that_is_missing_is_named(setting: str, module: str, extra: str) -> None:
    code = f"""
import sys
sys.modules[{module!r}] = None
from api_client.errors import InvalidInput
from worker.settings import Settings
from worker.telemetry.setup import Telemetry
try:
    Telemetry(Settings({setting})).start("thread")
except InvalidInput as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert f"pip install 'stepkeeper[{extra}]'" in done.stdout


def test_files_of_killed_children_are_added_up_also_when_they_are_empty(tmp_path: Path) -> None:
    """In a process of its own, as prometheus-client's mode belongs to a whole process."""
    code = """
import os, signal, sys
from worker.telemetry import exposing
exposing.prepare_children()
from worker.telemetry.metrics import MetricsObserver
from worker.telemetry.observer import Swept

def child():
    exposing.fresh_values()
    MetricsObserver(None).note(Swept(hints=2, ms=1, late_ms=0))
    os.kill(os.getpid(), signal.SIGKILL)

for _ in range(3):
    pid = os.fork()
    if not pid:
        child()
    os.waitpid(pid, 0)
open(os.path.join(os.environ["PROMETHEUS_MULTIPROC_DIR"], "counter_99999.db"), "w").close()
print(exposing.reading_registry().get_sample_value("stepkeeper_hints_total"))
print(os.environ["PROMETHEUS_MULTIPROC_DIR"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    value, folder = done.stdout.split()
    assert value == "6.0"
    assert not Path(folder).exists()


def test_a_foreign_apps_logging_is_left_alone() -> None:
    """Installing agents into an app changes neither its log class nor the root logger."""
    code = """
import logging
from celery import Celery
from worker import Agent, FunctionModel, install
app = Celery("shop", broker="memory://", backend="cache+memory://")
before = (app.log_cls, list(logging.getLogger().handlers), logging.getLogger().level)
install(app, agents=[Agent(name="a", goal="x", model=FunctionModel(lambda m: "hi"))])
assert (app.log_cls, list(logging.getLogger().handlers), logging.getLogger().level) == before
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
