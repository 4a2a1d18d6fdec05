"""An agent whose model is asked over HTTP, and does nothing but answer."""

from __future__ import annotations

from worker.agent import Agent

limited = Agent(name="limited", goal="Answer.")
