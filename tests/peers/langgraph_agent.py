"""LangGraph's agent loop as its guides write it: a model node, a tool node, a checkpointer.

A saver lets one task at a time use its connection. So each job that is under way has a saver of
its own, and many jobs are spread over processes.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from threading import Barrier
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.channels import DeltaChannel
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from tests.peers.load import ANSWER, OBSERVATION, PLAN, call_id
from tests.peers.script import WARM_UP, Asked, check, timed

OpenSaver = Callable[[str], AbstractAsyncContextManager[Any]]

READY_WITHIN_S = 60.0
DELTA = "delta"
"""The variant whose checkpoints hold what was added to the messages, not all of them."""


def append(state: list[AnyMessage], writes: list[Any]) -> list[AnyMessage]:
    """Add what nodes have written, in one batch or in several."""
    added = [write if isinstance(write, list) else [write] for write in writes]
    return state + [message for messages in added for message in messages]


class DeltaState(TypedDict):
    """Messages in a channel of the kind that is in beta."""

    messages: Annotated[list[AnyMessage], DeltaChannel(append)]


@tool
def look(page: int) -> str:
    """Read a page."""
    return OBSERVATION


def model(state: dict[str, Any]) -> dict[str, Any]:
    """The model's node: as many calls as the question says, then the answer."""
    messages = state["messages"]
    number = sum(message.type == "ai" for message in messages) + 1
    if number > int(messages[0].content):
        return {"messages": [AIMessage(ANSWER)]}
    call = {"name": "look", "args": {"page": number}, "id": call_id(number)}
    return {"messages": [AIMessage(PLAN, tool_calls=[call])]}


def build(saver: Any, variant: str) -> Any:
    """The graph with its checkpointer, which persists in its default mode."""
    graph = StateGraph(DeltaState if variant == DELTA else MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([look]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


async def run_job(graph: Any, steps: int) -> int:
    """A job in a thread of its own; returns how many messages it has at its end."""
    config = {"configurable": {"thread_id": str(uuid.uuid4())}, "recursion_limit": 2 * steps + 10}
    state = await graph.ainvoke({"messages": [HumanMessage(str(steps))]}, config)
    return len(state["messages"])


class LangGraph:
    """Runs graphs; what is asked of its server is up to who inherits.

    Args:
        open_saver: opens a saver with a connection of its own; a function of a module.
        runner: on which a single job runs.
    """

    def __init__(self, asked: Asked, open_saver: OpenSaver, runner: asyncio.Runner) -> None:
        self._asked = asked
        self._open_saver = open_saver
        self._runner = runner
        self._opened = AsyncExitStack()
        saver = runner.run(self._opened.enter_async_context(open_saver(asked.server)))
        self._graph = build(saver, asked.variant)

    def close(self) -> None:
        """Close the saver."""
        self._runner.run(self._opened.aclose())

    def one(self, steps: int) -> int:
        """Run a job to its end; returns how many messages it then has."""
        return self._runner.run(run_job(self._graph, steps))

    def many(self, jobs: int, steps: int) -> float:
        """Run so many jobs in several processes; returns the seconds since all stood ready."""
        processes = self._asked.processes
        share = replace(self._asked, jobs=jobs // processes, steps=steps)
        context = multiprocessing.get_context("spawn")
        gate = context.Barrier(processes + 1)
        with ProcessPoolExecutor(processes, context, _remember, (gate,)) as pool:
            done = [pool.submit(_run_share, share, self._open_saver) for _ in range(processes)]
            gate.wait(READY_WITHIN_S)
            return timed(lambda: [future.result() for future in done])


_gates: list[Barrier] = []


def _remember(gate: Barrier) -> None:
    _gates.append(gate)


def _run_share(share: Asked, open_saver: OpenSaver) -> None:
    asyncio.run(_jobs(share, open_saver))


async def _jobs(share: Asked, open_saver: OpenSaver) -> None:
    async with AsyncExitStack() as opened:
        savers = [
            await opened.enter_async_context(open_saver(share.server)) for _ in range(share.at_once)
        ]
        graphs = [build(saver, share.variant) for saver in savers]
        await asyncio.gather(*(run_job(graph, WARM_UP) for graph in graphs))
        await asyncio.to_thread(_gates[0].wait, READY_WITHIN_S)
        numbers = iter(range(share.jobs))
        await asyncio.gather(*(_follow(graph, numbers, share.steps) for graph in graphs))


async def _follow(graph: Any, numbers: Iterator[int], steps: int) -> None:
    """Run jobs one after the other, as long as there are some."""
    for _ in numbers:
        check(await run_job(graph, steps), steps)
