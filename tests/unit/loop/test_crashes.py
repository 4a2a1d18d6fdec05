"""A crash at every instant of many jobs: the same answer, and nothing paid or done twice.

Rules 2, 4, 5, 6 and 8.

Each job is first driven without a crash, then once for each instant at which its process dies
(before and after every call and every commit), and once with a crash at every other instant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from api_client.contract import (
    Answer,
    Approve,
    CallDecision,
    Decide,
    DidNotHappen,
    Edit,
    Extend,
    Happened,
    Pause,
    PauseKind,
    Reject,
    Retry,
    Signal,
)
from tests.unit.loop.driver import Driver, Script, check_history
from worker import agent_tool
from worker.agent import Agent
from worker.effects import End, Failed, Finished
from worker.errors import PauseRequested
from worker.memory import Summarised
from worker.messages import Transcript
from worker.models import ModelError, ScriptedModel
from worker.models.scripted import act, say
from worker.tools import hand_to_human, tool


class Report(BaseModel):
    """What an agent is to find out."""

    total: int


@tool(effects="safe")
def look(x: int) -> str:
    """Read."""
    return f"seen {x}"


@tool(effects="idempotent")
def put(x: int) -> str:
    """Write, any number of times."""
    return f"put {x}"


@tool(effects="once")
def pay(x: int) -> str:
    """Write, and never twice."""
    return f"paid {x}"


@tool(effects="once", approval=True)
def charge(x: int) -> str:
    """Take money, if a person allows it."""
    return f"charged {x}"


@tool(effects="idempotent")
def consult(x: int) -> str:
    """Ask a person."""
    raise PauseRequested(f"what about {x}?")


@tool(effects="safe", max_calls=1)
def rare(x: int) -> str:
    """Look, once in a job."""
    return f"rarely seen {x}"


@tool(effects="safe")
def broken(x: int) -> str:
    """Never works."""
    raise ValueError("broken")


TOOLS = (look, put, pay, charge, consult, rare, broken, hand_to_human)
HELPER = Agent(name="helper", goal="Help.", model=ScriptedModel([say("x")]))


def agent(**how: Any) -> Agent:
    return Agent(**{"name": "a", "goal": "Work.", "tools": TOOLS, **how})


def calls(*names: str, start: int = 1) -> list[tuple[str, dict[str, int]]]:
    return [(name, {"x": number}) for number, name in enumerate(names, start)]


def person(pause: Pause) -> Signal:
    """What a person says to each kind of pause, the same each time."""
    match pause.kind:
        case PauseKind.HAND_TO_HUMAN:
            return Answer(value=f"yes to {pause.action and pause.action.call_id}", by="anna")
        case PauseKind.APPROVAL:
            assert pause.action is not None
            number = pause.action.arguments["x"]
            return Reject(reason="too much") if number == 99 else Approve(arguments={"x": 50})
        case PauseKind.BUDGET:
            return Extend(amount=3)
    return Retry()


@dataclass(frozen=True)
class Case:
    agent: Agent
    script: tuple[Any, ...]
    person: Callable[[Pause], Signal] = person
    arriving: Mapping[int, list[str]] = field(default_factory=dict)


def one_at_a_time(pause: Pause) -> Signal:
    """Decides about the first of several calls, and about the next when asked again."""
    if "decide" not in pause.accepts:
        return person(pause)
    first, *_ = pause.actions
    return Decide(calls={first.call_id: CallDecision(approve=False, reason="not this one")})


def in_its_place(pause: Pause) -> Signal:
    """Answers the open calls in the tools' place, and says something besides."""
    assert pause.action is not None
    return Edit(answers={pause.action.call_id: "done by hand"}, message="I did it myself.")


CASES: dict[str, Case] = {
    "only text": Case(agent(), (say("42"),)),
    "one call a step": Case(
        agent(), (act("a", *calls("look")), act("b", *calls("put")), act("c", *calls("look")), "42")
    ),
    "several calls a step": Case(
        agent(), (act("a", *calls("put", "look", "put")), act("b", *calls("put", "put")), "42")
    ),
    "calls that must not be doubled": Case(
        agent(), (act("a", *calls("pay")), act("b", *calls("put", "pay", "pay")), "42")
    ),
    "a person is asked beside other calls": Case(
        agent(),
        (act("a", ("put", {"x": 1}), ("hand_to_human", {"reason": "?"}), ("look", {"x": 2})), "42"),
    ),
    "two questions in one reply": Case(
        agent(),
        (act("a", ("hand_to_human", {"reason": "1"}), ("hand_to_human", {"reason": "2"})), "42"),
    ),
    "a person allows, changes, refuses": Case(
        agent(), (act("a", *calls("charge", "put")), act("b", ("charge", {"x": 99})), "42")
    ),
    "a tool asks": Case(agent(), (act("a", *calls("consult", "put")), "42")),
    "the steps run out": Case(
        agent(max_steps=2), (*(act("a", *calls("look", start=n)) for n in range(5)), "42")
    ),
    "the calls of a tool run out": Case(agent(), (act("a", *calls("rare", "rare", "put")), "42")),
    "the same action again and again": Case(
        agent(max_repeats=2), (*(act("a", ("look", {"x": 1})) for _ in range(4)), "42")
    ),
    "models fail": Case(
        agent(),
        (
            ModelError("busy", "retry"),
            act("a", *calls("put")),
            ModelError("no credit", "pause"),
            ModelError("busy", "retry"),
            act("b", *calls("pay")),
            "42",
        ),
    ),
    "odd replies": Case(
        agent(output=Report),
        (
            act("a", ("nothing", {"x": 1}), ("put", {"x": 1}), ("look", '{"x": ')),
            say("<tool_call>{}</tool_call>"),
            say("It is 42."),
            act("b", ("terminate", {"total": "many"})),
            act("c", ("put", {"x": 2}), ("terminate", {"total": 42}), ("pay", {"x": 3})),
        ),
    ),
    "a tool that ends the job": Case(
        agent(terminal=[put]), (act("a", *calls("look", "put", "pay")),)
    ),
    "tools that fail": Case(agent(), (act("a", *calls("broken", "put", "broken")), "42")),
    "calls side by side": Case(
        agent(parallel_safe=True), (act("a", *calls("look", "look", "broken", "put", "look")), "42")
    ),
    "other agents": Case(
        agent(tools=[*TOOLS, agent_tool(HELPER)]),
        (
            act("a", ("helper", {"task": "1"}), ("put", {"x": 1}), ("helper", {"task": "2"})),
            act("b", ("helper", {"task": "3"}), ("hand_to_human", {"reason": "?"})),
            "42",
        ),
    ),
    "too long for the model": Case(
        agent(),
        (
            *(act("word " * 20, *calls("look", start=n)) for n in range(4)),
            ModelError("too long", "compact", code="context_length_exceeded"),
            act("b", *calls("pay")),
            "42",
        ),
    ),
    "a summary is written": Case(
        agent(
            memory=Summarised(tokens=120, model=ScriptedModel.by_task({"": [say("They looked.")]}))
        ),
        (*(act("word " * 20, *calls("look", start=n)) for n in range(6)), "42"),
    ),
    "several calls to allow": Case(
        agent(), (act("a", *calls("charge", "put", "charge", "charge")), "42"), one_at_a_time
    ),
    "a person does it": Case(
        agent(),
        (act("a", *calls("put", "charge", "look")), act("b", *calls("put")), "42"),
        in_its_place,
    ),
    "people tell it something": Case(
        agent(),
        (act("a", *calls("put", "look")), act("b", *calls("put")), "42"),
        arriving={1: ["faster"], 3: ["slower", "好了"], 5: ["stop"]},
    ),
    "a refusal": Case(agent(), (act("a", *calls("put")), say("", refusal="I cannot"))),
}


def driver_of(case: Case, crash: Callable[[int], bool]) -> Driver:
    arriving = {number: list(texts) for number, texts in case.arriving.items()}
    return Driver(case.agent, Script(case.script), crash=crash, arriving=arriving)


def finish(driver: Driver, case: Case) -> End:
    """Drive to the end; a call in doubt is looked up, as a person would in the books."""

    def decide(pause: Pause) -> Signal:
        if pause.kind is not PauseKind.UNKNOWN_OUTCOME:
            return case.person(pause)
        assert pause.action is not None
        if driver.paid.runs[pause.action.call_id]:
            return Happened(result="it is in the books", by="anna")
        return DidNotHappen(by="anna")

    return driver.go(decide)


def told(end: End) -> Any:
    """What the job's caller reads."""
    match end:
        case Finished(value=value):
            return value
        case Failed(reason=reason, text=text):
            return reason, text
    raise AssertionError(end)


def shape(driver: Driver) -> list[Any]:
    """The transcript as the model sees it, without what a call in doubt leaves open."""
    Transcript(driver.messages)
    return [
        (m["role"], m.get("tool_call_id") or m.get("tool_calls") or m["content"])
        for m in Transcript(driver.messages).view
    ]


each_case = pytest.mark.parametrize("case", list(CASES.values()), ids=list(CASES))


@each_case
def test_a_crash_at_each_instant(case: Case) -> None:
    calm = driver_of(case, lambda _: False)
    expected = told(finish(calm, case))
    for instant in range(calm.instant):
        driver = driver_of(case, lambda number, at=instant: number == at)  # type: ignore[misc]
        assert told(finish(driver, case)) == expected, f"crash at instant {instant}"
        check(driver, calm, f"crash at instant {instant}")


@each_case
@pytest.mark.parametrize("every", [2, 3, 5])
def test_crashes_again_and_again(case: Case, every: int) -> None:
    """Each attempt but every ``every``-th gets a few instants further."""
    calm = driver_of(case, lambda _: False)
    expected = told(finish(calm, case))
    lucky = iter(range(10**6))

    def crash(number: int) -> bool:
        return number % 4 == 3 and next(lucky) % every != 0

    driver = driver_of(case, crash)
    assert told(finish(driver, case)) == expected
    check(driver, calm, f"crashes, every {every}")


def check(driver: Driver, calm: Driver, why: str) -> None:
    paid = driver.paid
    for number, times in paid.replies.items():
        assert times - paid.lost_replies[number] <= calm.paid.replies[number], (
            f"rule 2: reply {number} was asked for again after its commit; {why}"
        )
    for call_id, times in paid.runs.items():
        assert times - paid.lost_runs[call_id] <= 1, (
            f"rule 2: {call_id} was run again after its observation was committed; {why}"
        )
        assert len(paid.keys[call_id]) == 1, f"rule 5: the key of {call_id} changed; {why}"
    for call_id in once_calls(driver):
        assert paid.runs[call_id] <= 1, f"rule 5: {call_id} was run twice; {why}"
    assert shape(driver) == shape(calm), why
    written = [message for commit in driver.commits for message in commit]
    assert written == driver.messages, f"rule 4: a commit carries what is new; {why}"
    check_history([*Transcript(driver.messages).view])


def once_calls(driver: Driver) -> list[str]:
    found = []
    for message in driver.messages:
        for call in message.get("tool_calls") or ():
            named = driver.agent.toolbox.get(call["function"]["name"])
            if named is not None and named.effects == "once":
                found.append(call["id"])
    return found


@each_case
def test_an_attempt_is_numbered_after_a_crash(case: Case) -> None:
    """A tool can see that it may have run before."""
    calm = driver_of(case, lambda _: False)
    finish(calm, case)
    assert all(numbers == [1] for numbers in calm.paid.attempts.values())
    for instant in range(calm.instant):
        driver = driver_of(case, lambda number, at=instant: number == at)  # type: ignore[misc]
        finish(driver, case)
        for numbers in driver.paid.attempts.values():
            assert len(set(numbers)) == len(numbers)
            assert numbers in ([1], [2], [1, 2])


def test_the_cases_do_what_they_are_called() -> None:
    """So that the tests above look at pauses, waits and doubts, and not past them."""
    pauses: dict[str, list[PauseKind]] = {}
    kinds: set[str] = set()
    for name, case in CASES.items():
        driver = driver_of(case, lambda _: False)
        finish(driver, case)
        pauses[name] = [pause.kind for pause in driver.pauses]
        kinds |= set(driver.kinds())
    human, approval = PauseKind.HAND_TO_HUMAN, PauseKind.APPROVAL
    assert pauses["two questions in one reply"] == [human, human]
    assert pauses["a person allows, changes, refuses"] == [approval, approval]
    assert pauses["a tool asks"] == [human]
    assert pauses["the steps run out"] == [PauseKind.BUDGET, PauseKind.BUDGET]
    assert pauses["the calls of a tool run out"] == [PauseKind.BUDGET]
    assert PauseKind.REPEATED_ACTION in pauses["the same action again and again"]
    assert pauses["models fail"] == [PauseKind.MODEL_ERROR]
    assert {"reply", "observation", "started", "resumed", "retry", "delegated"} <= kinds
    assert pauses["several calls to allow"] == [approval, approval, approval]
    assert {"heard", "awaiting", "compacted", "summary", "paused", "finished", "failed"} <= kinds


def test_a_once_call_in_doubt_pauses() -> None:
    case = CASES["calls that must not be doubled"]
    calm = driver_of(case, lambda _: False)
    finish(calm, case)
    doubts = 0
    for instant in range(calm.instant):
        driver = driver_of(case, lambda number, at=instant: number == at)  # type: ignore[misc]
        finish(driver, case)
        kinds = [pause.kind for pause in driver.pauses]
        assert kinds in ([], [PauseKind.UNKNOWN_OUTCOME])
        doubts += len(kinds)
    # three calls: after the commit of the mark, before the run, after the run, before the commit
    assert doubts == 3 * 4
