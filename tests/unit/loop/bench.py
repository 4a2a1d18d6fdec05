"""Tools that keep a book of what they did, for the tests of the loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from worker.agent import Agent
from worker.errors import PauseRequested, ToolFailed
from worker.tools import hand_to_human, tool


@dataclass
class Bench:
    """Tools and the book in which they write, in the order in which they ran."""

    done: list[str] = field(default_factory=list)

    def note(self, text: str) -> str:
        """Write down and return a text."""
        self.done.append(text)
        return text

    @tool(effects="safe")
    def look(self, x: int) -> str:
        """Read."""
        return self.note(f"look {x}")

    @tool
    def put(self, x: int) -> str:
        """Write."""
        return self.note(f"put {x}")

    @tool(effects="once")
    def pay(self, x: int) -> str:
        """Write, never twice."""
        return self.note(f"pay {x}")

    @tool(effects="once", approval=True)
    def charge(self, x: int) -> str:
        """Take money, if a person allows it."""
        return self.note(f"charge {x}")

    @tool(effects="safe", max_calls=2)
    def rare(self, x: int) -> str:
        """Read, twice at most."""
        return self.note(f"rare {x}")

    @tool(effects="safe")
    def ping(self) -> str:
        """Take nothing."""
        return self.note("pong")

    @tool(effects="safe")
    def fail(self, x: int) -> str:
        """Fail."""
        raise ToolFailed(f"no {x} here")

    @tool(effects="safe")
    def crash(self, x: int) -> str:
        """Raise what nobody planned."""
        known: dict[int, str] = {}
        return known[x]

    @tool(effects="once")
    def consult(self, x: int) -> str:
        """Ask a person."""
        self.note(f"consult {x}")
        raise PauseRequested(f"what about {x}?", data={"x": x})

    @tool(effects="safe")
    def long(self, x: int) -> str:
        """Say much."""
        return "0123456789" * x

    def agent(self, **how: Any) -> Agent:
        """An agent with all these tools."""
        tools = [
            self.look,
            self.put,
            self.pay,
            self.charge,
            self.rare,
            self.ping,
            self.fail,
            self.crash,
            self.consult,
            self.long,
            hand_to_human,
        ]
        return Agent(**{"name": "bench", "goal": "Work.", "tools": tools, **how})
