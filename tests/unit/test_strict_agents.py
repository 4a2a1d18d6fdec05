"""An agent that asks for strict schemas gets them where its tools allow it (C2)."""

from __future__ import annotations

from typing import Any

from worker import Agent, tool


@tool
def fits(city: str, days: int | None = None) -> str:
    """Has a strict form."""
    return f"{city} {days}"


@tool
def does_not(options: dict[str, Any]) -> str:
    """Has none: any key is allowed."""
    return str(options)


def test_c2_strict_only_where_the_schema_satisfies_it() -> None:
    agent = Agent(name="a", goal="g", tools=[fits, does_not], strict=True)
    sent = {schema["function"]["name"]: schema["function"] for schema in agent.schemas}
    assert sent["fits"]["strict"] is True
    assert sent["fits"]["parameters"]["additionalProperties"] is False
    assert sent["fits"]["parameters"]["required"] == ["city", "days"]
    assert not sent["does_not"].get("strict")


def test_nothing_is_said_of_strictness_by_default() -> None:
    agent = Agent(name="a", goal="g", tools=[fits])
    assert "strict" not in agent.schemas[0]["function"]
