"""Restate: a job is an invocation of a service, each model call and each tool call a run in it.

The service runs in a process of its own, and Restate's server calls it; jobs are submitted over
the server's HTTP ingress. ``--server`` is ``ingress,admin``, two URLs.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import restate

from tests.peers.load import OBSERVATION, Message, observed, page_of, question, reply
from tests.peers.script import Asked, check, measure, tell, timed, versions_of

READY_WITHIN_S = 30.0
LOOK_EVERY_S = 0.1
TIMEOUT_S = 300.0

agent = restate.Service("agent")


async def model(messages: list[Message], steps: int) -> Message:
    """The model's call; its reply is what is stored."""
    return reply(messages, steps)


async def look(page: int) -> str:
    """Read a page."""
    return OBSERVATION


@agent.handler()
async def run(ctx: restate.Context, steps: int) -> int:
    """The loop; returns how many messages there are at its end."""
    messages = [question(steps)]
    while True:
        said = await ctx.run_typed("model", model, messages=messages, steps=steps)
        messages.append(said)
        if "tool_calls" not in said:
            return len(messages)
        for call in said["tool_calls"]:
            text = await ctx.run_typed("look", look, page=page_of(call))
            messages.append(observed(call, text))


app = restate.app([agent])


class Restate:
    """Submits jobs to a server that knows the service."""

    def __init__(self, asked: Asked, server_version: str) -> None:
        self._asked = asked
        self._server_version = server_version
        self._ingress = asked.server.split(",")[0]

    def one(self, steps: int) -> int:
        """Run a job to its end; returns how many messages it then has."""

        async def single() -> int:
            async with self._client() as client:
                return await self._run(client, steps)

        return asyncio.run(single())

    def many(self, jobs: int, steps: int) -> float:
        """Run so many jobs; returns the seconds."""

        async def run_all() -> None:
            room = asyncio.Semaphore(self._asked.at_once)
            async with self._client() as client:

                async def run_one() -> None:
                    async with room:
                        check(await self._run(client, steps), steps)

                await asyncio.gather(*(run_one() for _ in range(jobs)))

        return timed(lambda: asyncio.run(run_all()))

    def stored(self) -> None:
        """The server's files have room reserved in advance: their size says nothing."""

    def durability(self) -> str:
        """What its settings say, which are its own defaults."""
        return "log with fsync, one replica"

    def versions(self) -> dict[str, str]:
        """Of the package and the server."""
        return versions_of("restate-sdk") | {"restate-server": self._server_version}

    def _client(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None)
        return httpx.AsyncClient(base_url=self._ingress, timeout=TIMEOUT_S, limits=limits)

    async def _run(self, client: httpx.AsyncClient, steps: int) -> int:
        answer = await client.post("/agent/run", json=steps)
        answer.raise_for_status()
        return int(json.loads(answer.content))


@contextmanager
def serving(asked: Asked) -> Iterator[Restate]:
    """The service on a port of loopback, and the server told of it."""
    port = _free_port()
    command = [sys.executable, "-m", "hypercorn", "--bind", f"127.0.0.1:{port}"]
    more = ["--log-level", "error", "--workers", str(asked.processes), "tests.peers.restate:app"]
    service = subprocess.Popen(command + more)
    try:
        admin = asked.server.split(",")[1]
        _register(admin, f"http://127.0.0.1:{port}", service)
        yield Restate(asked, httpx.get(f"{admin}/version").json()["version"])
    finally:
        service.terminate()
        service.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _register(admin: str, service_url: str, service: subprocess.Popen[bytes]) -> None:
    """Tell the server of the service, as soon as it answers.

    Raises:
        httpx.HTTPError: it does not answer in time.
        RuntimeError: it has ended.
    """
    deadline = time.monotonic() + READY_WITHIN_S
    while service.poll() is None:
        answer = httpx.post(f"{admin}/deployments", json={"uri": service_url}, timeout=TIMEOUT_S)
        if answer.is_success:
            return
        if time.monotonic() > deadline:
            answer.raise_for_status()
        time.sleep(LOOK_EVERY_S)
    raise RuntimeError(f"the service ended with code {service.returncode}")


if __name__ == "__main__":
    wanted = Asked.read(sys.argv[1:])
    with serving(wanted) as peer:
        tell(measure(peer, wanted))
