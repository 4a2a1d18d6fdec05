"""An agent whose replies can be watched; its model comes from the environment."""

from __future__ import annotations

from worker.agent import Agent
from worker.tools import tool


@tool(effects="safe")
def find(order: str) -> str:
    """Finds an order."""
    return f"{order}: sent"


teller = Agent(name="teller", goal="Tell what you find.", tools=[find], stream=True)
