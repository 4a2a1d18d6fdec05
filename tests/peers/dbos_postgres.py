"""DBOS on Postgres: a job is a workflow, each model call and each tool call a step."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dbos import DBOS

from tests.peers.load import OBSERVATION, Message, observed, page_of, question, reply
from tests.peers.script import Asked, check, measure, tell, timed, versions_of
from tests.peers.stored import postgres_bytes, postgres_durability, postgres_says


@DBOS.step()
def model(messages: list[Message], steps: int) -> Message:
    """The model's call; its reply is what is stored."""
    return reply(messages, steps)


@DBOS.step()
def look(page: int) -> str:
    """Read a page."""
    return OBSERVATION


@DBOS.workflow()
def agent(steps: int) -> int:
    """The loop; returns how many messages there are at its end."""
    messages = [question(steps)]
    while True:
        said = model(messages, steps)
        messages.append(said)
        if "tool_calls" not in said:
            return len(messages)
        messages += [observed(call, look(page_of(call))) for call in said["tool_calls"]]


class DbosPostgres:
    """Runs workflows in this process, on one database."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def one(self, steps: int) -> int:
        """Run a job to its end; returns how many messages it then has."""
        messages: int = agent(steps)
        return messages

    def many(self, jobs: int, steps: int) -> float:
        """Run so many jobs on the threads of DBOS; returns the seconds."""

        def run() -> None:
            handles: list[Any] = [DBOS.start_workflow(agent, steps) for _ in range(jobs)]
            for handle in handles:
                check(handle.get_result(), steps)

        return timed(run)

    def stored(self) -> int:
        """The bytes of all tables."""
        return postgres_bytes(self._asked.server)

    def durability(self) -> str:
        """What the server does at a commit."""
        return postgres_durability(self._asked.server)

    def versions(self) -> dict[str, str]:
        """Of the package and the server."""
        server = postgres_says(self._asked.server)["server_version"]
        return versions_of("dbos") | {"postgresql": server}


@contextmanager
def launched(asked: Asked) -> Iterator[DbosPostgres]:
    """DBOS with so many threads for workflows; it reports to no console of its makers."""
    DBOS(
        config={
            "name": "peers",
            "system_database_url": asked.server,
            "max_executor_threads": asked.at_once,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    try:
        yield DbosPostgres(asked)
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    wanted = Asked.read(sys.argv[1:])
    with launched(wanted) as peer:
        tell(measure(peer, wanted))
