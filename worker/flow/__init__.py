"""Limits of models that all workers share: requests and tokens a minute, calls in flight."""

from __future__ import annotations

from worker.flow.base import Limit, limit_key

__all__ = ["Limit", "limit_key"]
