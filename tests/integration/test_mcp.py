"""Real MCP servers, as programs and over HTTP: their tools are an agent's tools."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import mcp_server
from tests.support.workers import Ledger, eventually
from worker.agent import Agent
from worker.context import CallInfo
from worker.errors import ArgumentError, ToolRegistrationError
from worker.inline import run_inline
from worker.mcp import Http, Stdio, hub, mcp_tools, session
from worker.models.scripted import act
from worker.tools import Observation, Tool

SERVER = str(Path(mcp_server.__file__))
INFO = CallInfo("job-1", "call_1", 1, 1, "job-1:call_1")
Box = dict[str, Tool]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    hub.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def stdio(ledger: Ledger) -> Stdio:
    return Stdio(sys.executable, [SERVER], env={"TEST_LEDGER": str(ledger.path)})


class WebServer:
    """The same server over HTTP, which can die and come back."""

    def __init__(self, ledger: Ledger) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._env = {**os.environ, "TEST_LEDGER": str(ledger.path)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen([sys.executable, SERVER, str(self.port)], env=self._env)
        eventually(self._answers, "the server listens")

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def web(ledger: Ledger) -> Iterator[WebServer]:
    server = WebServer(ledger)
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["stdio", "http"])
def place(request: pytest.FixtureRequest) -> Stdio | Http:
    if request.param == "stdio":
        found: Stdio = request.getfixturevalue("stdio")
        return found
    return Http(request.getfixturevalue("web").url)


def box(place: Any, **options: Any) -> Box:
    return {tool.name: tool for tool in mcp_tools(place, **options)}


def call(tools: Box, name: str, **arguments: Any) -> Observation:
    tool = tools[name]
    return tool.invoke(tool.parse(json.dumps(arguments)), None, INFO)


def pid_of(tools: Box) -> int:
    return int(json.loads(call(tools, "whoami").content)["pid"])


def test_a_servers_tools_are_listed_with_its_own_schemas(place: Stdio | Http) -> None:
    tools = box(place, effects={"find": "safe", "move": "once"}, default_effects="idempotent")
    status = tools["status"]
    assert status.description == "Status of an order."
    assert status.parameters["properties"]["order"]["type"] == "string"
    assert status.parameters["required"] == ["order"]
    assert [tools[n].effects for n in ("find", "move", "status")] == ["safe", "once", "idempotent"]


def test_calls_come_back_with_what_the_server_says(place: Stdio | Http, ledger: Ledger) -> None:
    tools = box(place)
    assert call(tools, "status", order="1187", days=2).content == "1187: sent 2 days ago"
    assert json.loads(call(tools, "find", order="1").content)["address"]["number"] == 7
    assert call(tools, "nothing").value is None
    mixed = call(tools, "mixed").content
    assert mixed.startswith("look:\na note\n")
    assert "image/jpeg" in mixed
    assert ledger.entries("status")[0]["key"] == INFO.idempotency_key


def test_what_goes_wrong_is_an_observation(place: Stdio | Http) -> None:
    tools = box(place)
    refused, picture = call(tools, "refuse", order="7"), call(tools, "picture")
    assert (refused.error, picture.error) == (True, True)
    assert "order 7 is locked" in refused.content
    assert "an image (image/png), and only text can be passed on" in picture.content
    with pytest.raises(ArgumentError, match=r"to\.number"):
        call(tools, "move", order="7", to={"street": "x", "number": "seven"})


def test_a_call_that_takes_too_long_is_called_off(place: Stdio | Http, ledger: Ledger) -> None:
    tools = box(place)
    before = pid_of(tools)
    slow = tools["slow"]
    tools["slow"] = replace(slow, timeout=1.0, function=replace(slow.function, timeout=1.0))  # type: ignore[type-var]
    observation = call(tools, "slow", seconds=60)
    assert observation.error
    assert "no result within 1 seconds" in observation.content
    ledger.wait("called off")
    assert pid_of(tools) == before


def test_one_session_serves_all_calls_and_ends_with_the_process(
    stdio: Stdio, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program sees nothing of the worker's environment but what it was given."""
    monkeypatch.setenv("LLM_API_KEY", "sk-secret")
    tools = box(stdio)
    seen = json.loads(call(tools, "whoami").content)["env"]
    assert "LLM_API_KEY" not in seen
    assert "TEST_LEDGER" in seen
    assert len(ledger.entries("stop")) == 1
    assert len({pid_of(tools) for _ in range(5)}) == 1
    assert len(ledger.entries("start")) == 2
    hub.close()
    ledger.wait("stop", 2)


def test_a_program_that_died_in_a_call_is_started_again_at_the_next(
    stdio: Stdio, ledger: Ledger
) -> None:
    tools = box(stdio)
    died = call(tools, "die")
    assert died.error
    assert "check before you call it again" in died.content
    assert call(tools, "status", order="1").content.startswith("1: sent")
    assert len(ledger.entries("die")) == 1
    assert len(ledger.entries("start")) == 3


def test_a_program_that_died_between_calls_is_started_again_unnoticed(stdio: Stdio) -> None:
    tools = box(stdio)
    before = pid_of(tools)
    os.kill(before, signal.SIGKILL)
    ended = hub.hub()._sessions[id(tools["status"].function.server)][1]._talk  # type: ignore[attr-defined]
    assert ended is not None
    eventually(lambda: ended.over, "its end is noticed")
    assert pid_of(tools) != before


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_that_was_started_anew_is_connected_to_again(
    web: WebServer, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the older protocol it has forgotten our session as well."""
    monkeypatch.setattr(session, "MODE", mode)
    tools = box(Http(web.url))
    before = pid_of(tools)
    web.kill()
    web.start()
    found = call(tools, "whoami")
    assert json.loads(found.content)["pid"] != before


def test_a_server_that_stays_away_is_an_observation(web: WebServer) -> None:
    tools = box(Http(web.url), prefix="shop.")
    web.kill()
    first, second = (call(tools, "shop_status", order="1") for _ in range(2))
    assert first.error
    assert second.error
    assert "the tool's server cannot be reached" in second.content
    web.start()
    assert call(tools, "shop_status", order="1").content.startswith("1: sent")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["/nowhere/no-server"], "No such file"),
        ([sys.executable, "-c", "pass"], "Connection closed"),
        ("http://127.0.0.1:1/mcp", "connection"),
    ],
)
def test_an_unreachable_server_is_told_while_the_agent_is_defined(given: Any, told: str) -> None:
    with pytest.raises(ToolRegistrationError) as caught:
        mcp_tools(given)
    assert "cannot list its tools" in str(caught.value)
    assert told in str(caught.value)


@pytest.mark.parametrize("given", ["files-server", [], [1]])
def test_what_is_no_server_is_refused(given: Any) -> None:
    with pytest.raises(ToolRegistrationError, match="give a URL"):
        mcp_tools(given)


@pytest.mark.parametrize("argument", [{"effects": {"stauts": "safe"}}, {"only": ["stauts"]}])
def test_a_name_that_the_server_does_not_have_is_refused(stdio: Stdio, argument: Any) -> None:
    with pytest.raises(ToolRegistrationError, match=r"names stauts; its tools are die, find, "):
        mcp_tools(stdio, **argument)


def test_only_some_tools_and_names_that_do_not_meet(stdio: Stdio) -> None:
    names = [tool.name for tool in mcp_tools(stdio, only=["find", "status"], prefix="orders.")]
    assert names == ["orders_status", "orders_find"]


def test_secrets_stand_in_no_text(ledger: Ledger) -> None:
    place = Http("http://anna:secret-1@127.0.0.1:1/mcp?key=secret-2", {"X-Key": "secret-3"})
    program = Stdio("/nowhere/x", env={"KEY": "secret-4"})
    for given in (place, program):
        with pytest.raises(ToolRegistrationError) as caught:
            mcp_tools(given)
        assert "secret" not in f"{caught.value} {given}"
    assert "secret-4" not in repr(program)


def in_a_child(work: Callable[[], Any]) -> Any:
    """What a function returns in a forked process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, json.dumps(work()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(answer)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_session_of_its_own(stdio: Stdio) -> None:
    tools = box(stdio)
    ours = pid_of(tools)
    assert in_a_child(lambda: pid_of(tools)) != ours
    assert pid_of(tools) == ours


def test_an_agent_works_with_them(stdio: Stdio, ledger: Ledger) -> None:
    clerk = Agent(
        name="clerk",
        goal="Answer about orders.",
        tools=mcp_tools(stdio, effects={"move": "once", "status": "safe"}),
    )
    script = [
        act("I look.", ("status", {"order": "1187"}), ("status", {"order": 7})),
        act("I move it.", ("move", {"order": "1187", "to": {"street": "Weg", "number": 1}})),
        "Done.",
    ]
    run = run_inline(clerk, "Move 1187.", model=script, job_id="job-7")
    assert run.answer == "Done."
    assert run.observations[0] == "1187: sent 3 days ago"
    assert "order: 7 is not of type 'string'" in run.observations[1]
    assert run.observations[2] == "1187 goes to Weg 1"
    assert [e.kind for e in run.events].count("started") == 1
    assert ledger.entries("status")[0]["key"] == "job-7:call_1_1"
