"""Celery settings that harm jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from celery import Celery

from worker.celery_config import ours
from worker.doctor.celery_rules import RULES, check
from worker.settings import Settings

SETTINGS = Settings()


def conf(**changed: Any) -> Any:
    """The settings of an app of ours, with some of them changed."""
    app = Celery("x", set_as_current=False)
    app.conf.update({**ours(SETTINGS), **changed})
    return app.conf


def test_at_our_own_settings_nothing_is_found() -> None:
    assert [*check(conf(), SETTINGS)] == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("task_acks_late", True),
        ("task_reject_on_worker_lost", True),
        ("worker_disable_prefetch", False),
        ("worker_prefetch_multiplier", 4),
        ("accept_content", ["json", "pickle"]),
        ("accept_content", ["application/x-python-serialize"]),
        ("task_serializer", "pickle"),
        ("result_serializer", "pickle"),
        ("result_backend", None),
        ("result_backend", "disabled://"),
        ("result_backend", "rpc://"),
        ("result_backend", "cache+memory://"),
        ("result_expires", 86400),
        ("result_expires", timedelta(days=1)),
        ("task_ignore_result", True),
        ("result_backend_always_retry", False),
        ("task_track_started", True),
        ("task_always_eager", True),
        ("broker_connection_max_retries", 100),
        ("broker_channel_error_retry", False),
        ("worker_send_task_events", False),
        ("worker_enable_remote_control", False),
        ("task_time_limit", 300),
        ("worker_cancel_long_running_tasks_on_connection_loss", True),
        ("broker_transport_options", {"visibility_timeout": 10, "socket_timeout": 5}),
        ("broker_transport_options", {"visibility_timeout": 3600}),
    ],
)
def test_a_harmful_setting_is_found_by_its_name(setting: str, value: Any) -> None:
    (finding,) = check(conf(**{setting: value}), SETTINGS)
    assert (finding.setting, finding.area) == (setting, "celery")
    assert setting in finding.what or "visibility" in finding.what or "socket" in finding.what
    assert finding.fix.startswith(setting)


def test_celerys_own_defaults_harm_jobs() -> None:
    app = Celery("x", broker="redis://127.0.0.1", backend="redis://", set_as_current=False)
    found = {finding.setting for finding in check(app.conf, SETTINGS)}
    assert {"worker_prefetch_multiplier", "result_expires", "broker_transport_options"} <= found


def test_another_broker_has_no_options_of_redis() -> None:
    changed = conf(broker_url="amqp://guest@host//", broker_transport_options={})
    assert [*check(changed, SETTINGS)] == []


def test_each_rule_has_a_setting_of_its_own() -> None:
    assert len({rule.setting for rule in RULES}) == len(RULES)
