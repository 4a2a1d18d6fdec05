"""An agent whose code says how many of its jobs may wait."""

from __future__ import annotations

from worker.agent import Agent

capped = Agent(name="capped", goal="Answer.", max_backlog=3)
