"""A calculator with a typed answer; what it saves goes where the model cannot see."""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass

from pydantic import BaseModel

from api_client.contract import JobSpec
from worker.agent import Agent
from worker.examples.book import Book, data_url
from worker.tools import ActionContext, tool


class Result(BaseModel):
    value: float


@dataclass(frozen=True)
class Library(ActionContext):
    """Where papers are kept (``sqlite:///PATH``), and the key that seals each of them."""

    database_url: str
    api_key: str


@tool(effects="safe")
def add(a: float, b: float) -> float:
    """Adds two numbers."""
    return a + b


@tool(effects="safe")
def multiply(a: float, b: float) -> float:
    """Multiplies two numbers."""
    return a * b


@tool
def save_paper(title: str, content: str, library: Library) -> str:
    """Saves a text under a title, for good."""
    seal = hmac.new(library.api_key.encode(), content.encode(), "sha256").hexdigest()
    number = Book(library.database_url).add(library.idempotency_key, f"{title}: {content} [{seal}]")
    return f"saved as paper {number}"


def open_library(_spec: JobSpec) -> Library:
    url = data_url("STEPKEEPER_PAPERS_DB", "papers.sqlite3")
    return Library(url, os.environ.get("STEPKEEPER_PAPERS_KEY", ""))


calculator = Agent(
    name="calculator",
    goal="Calculate with the add and multiply tools. Call terminate with the final answer.",
    tools=[add, multiply, save_paper],
    output=Result,
    context=open_library,
)
