"""The settings of this process, and what is likely a slip in them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from api_client.errors import StepkeeperError
from worker.discovery import load_agents
from worker.doctor.findings import Findings, error, warning
from worker.settings import Settings

AREA = "environment"
PREFIX = "STEPKEEPER_"
_ALIKE = 0.84


def check(environment: Mapping[str, str], settings: Settings) -> Findings:
    """Variables that look like settings and are none; times that do not fit together."""
    yield from _slips(environment)
    if settings.sweep_s > settings.lease_s:
        yield warning(
            AREA, "STEPKEEPER_SWEEP_S",
            f"sweeps every {settings.sweep_s:g} s, leases of {settings.lease_s:g} s: a dead "
            "worker's jobs wait for the sweep",
            f"set it below {settings.lease_s:g}",
        )  # fmt: skip
    if settings.lease_s > 120:
        yield warning(
            AREA, "STEPKEEPER_LEASE_S",
            f"a dead worker's jobs are taken over only after {settings.lease_s:g} s",
            "set it to 15",
        )  # fmt: skip


def _slips(environment: Mapping[str, str]) -> Findings:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in known:
            continue
        alike = difflib.get_close_matches(name, known, 1, _ALIKE)
        if alike and not name.startswith(f"{PREFIX}WEB_"):
            yield warning(
                AREA, name, f"{name} is no setting, and is not read", f"did you mean {alike[0]}?"
            )


def check_agents(settings: Settings) -> Findings:
    """Whether the agents that are named can be loaded."""
    try:
        load_agents(settings.agents)
    except (StepkeeperError, ImportError) as reason:
        yield error(
            AREA, "STEPKEEPER_AGENTS", f"the agents cannot be loaded: {reason}",
            "correct the import path, or the module",
        )  # fmt: skip
