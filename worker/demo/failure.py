"""Why a demo did not show what it should."""

from __future__ import annotations

from api_client.errors import StepkeeperError


class DemoFailed(StepkeeperError):
    """Something that the demo promises did not happen; says what, in one line or a few."""
