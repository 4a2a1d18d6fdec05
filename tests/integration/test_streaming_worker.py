"""A reply watched from outside while a real worker receives it from a real server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from api_client import AgentClient, JobStatus
from api_client.live import LiveRecord
from tests.support.workers import eventually, running
from worker.devserver import Fault, ModelServer
from worker.devserver.faults import Compute
from worker.embedded import EmbeddedServer
from worker.models.scripted import ScriptedModel, act

LONG = "".join(f"word{n} " for n in range(40))
SCRIPT = [act("I look.", ("find", {"order": "1187"})), LONG]


@pytest.fixture(scope="module")
def talker() -> Iterator[ModelServer]:
    """The model of all of these tests."""
    with ModelServer(ScriptedModel(SCRIPT)) as found:
        yield found


@pytest.fixture
def server(talker: ModelServer) -> ModelServer:
    """The same, as if nobody had asked yet."""
    talker.faults.clear()
    talker.count = 0
    return talker


@pytest.fixture(scope="module", params=["threads", "prefork"])
def client(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    talker: ModelServer,
) -> Iterator[AgentClient]:
    """A client of a worker whose model is the server; other tests do not flush its store."""
    env = {"LLM_BASE_URL": talker.base_url, "LLM_API_KEY": "sk-test", "LLM_MODEL": "m"}
    agents = "tests.support.streaming_agents"
    with (
        EmbeddedServer(tmp_path_factory.mktemp("streaming")) as valkey,
        running(valkey.url, agents=agents, pool=request.param, env=env),
    ):
        found = AgentClient(valkey.url)
        eventually(found.agents, "the worker announces its agent")
        yield found


def closing(fault: Fault) -> tuple[Fault, threading.Event]:
    """The same fault, and what is set when the client has gone away."""
    gone = threading.Event()

    async def act(writer: asyncio.StreamWriter, compute: Compute) -> bool:
        try:
            return await fault.act(writer, compute)
        finally:
            gone.set()

    return Fault(fault.name, act), gone


def text_of(records: list[LiveRecord], step: int) -> str:
    """What a reader has of one reply in the end."""
    text = ""
    for record in records:
        if record.step == step:
            text = "" if record.kind == "begin" else text + record.text * (record.kind == "text")
    return text


def test_a_reader_sees_the_reply_while_it_comes_and_goes_on_where_it_was(
    client: AgentClient, server: ModelServer
) -> None:
    server.faults += [None, Fault.paced_stream(0.03)]
    job_id = client.submit("teller", "Where is 1187?")
    first: list[LiveRecord] = []
    for record in client.live(job_id, follow=True):
        first.append(record)
        if record.step == 2 and record.text:
            break
    assert client.get(job_id).status is JobStatus.RUNNING
    rest = list(client.live(job_id, first[-1].id, follow=True))
    assert client.result(job_id, timeout_s=30) == LONG
    assert text_of([*first, *rest], 2) == LONG
    assert [r.tool for r in first if r.tool] == ["find"]
    assert list(client.live(job_id)) == [*first, *rest]


def test_a_stream_that_breaks_off_is_no_answer_and_the_reply_begins_again(
    client: AgentClient, server: ModelServer
) -> None:
    server.faults += [None, Fault.cut_stream(6)]
    job_id = client.submit("teller", "Where is 1187?")
    assert client.result(job_id, timeout_s=60) == LONG
    records = list(client.live(job_id))
    assert [(r.step, r.kind) for r in records].count((2, "begin")) == 2
    assert text_of(records, 2) == LONG
    assert server.count == 3


def test_a_cancel_closes_the_call_at_once_and_keeps_what_was_shown(
    client: AgentClient, server: ModelServer
) -> None:
    held, gone = closing(Fault.held_stream(8))
    server.faults += [None, held]
    job_id = client.submit("teller", "Where is 1187?")
    for record in client.live(job_id, follow=True):
        if record.step == 2 and "word3" in record.text:
            break
    assert client.cancel(job_id, by="anna").pending
    outcome = client.wait(job_id, timeout_s=10)
    assert outcome.reason == "cancelled"
    assert gone.wait(10)
    shown = text_of(list(client.live(job_id)), 2)
    assert shown.startswith("word0 word1")
    assert LONG.startswith(shown)
    assert client.messages(job_id)[-1]["role"] == "tool"


def test_a_cancel_in_the_first_reply_keeps_the_task(
    client: AgentClient, server: ModelServer
) -> None:
    server.faults.append(Fault.held_stream(2))
    job_id = client.submit("teller", "Where is 1187?")
    next(client.live(job_id, follow=True))
    client.cancel(job_id)
    assert client.wait(job_id, timeout_s=10).reason == "cancelled"
    assert [m["role"] for m in client.messages(job_id)] == ["system", "user"]
