"""Driving the loop by hand: every effect performed here, every commit written down, and a crash
wherever a test wants one.

A job is driven from what was written down alone, as in another process: nothing of the loop's own
objects survives a slice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from api_client.contract import JobSpec, Mail, Outcome, Pause, Signal
from api_client.sizes import DEFAULT_SIZES, Sizes
from worker.agent import Agent
from worker.context import ActionContext
from worker.effects import (
    Awaiting,
    Backoff,
    CallModel,
    CallTool,
    CallTools,
    Commit,
    End,
    Failed,
    Finished,
    ModelAnswer,
    Paused,
    StartJobs,
    SubResult,
    ToolAnswer,
)
from worker.errors import PauseRequested
from worker.job import Job
from worker.loop import advance
from worker.messages import Transcript
from worker.models import ModelError
from worker.models.base import ModelReply, ModelRequest
from worker.models.function import as_reply
from worker.state import RunState, Tokens

Instants = Callable[[int], bool]

MODEL_MS = 7
TOOL_MS = 5
MAX_SLICES = 200


@dataclass(frozen=True)
class Once:
    """A reply that comes once before its line, and leaves no message."""

    reply: ModelReply


class Script:
    """Lines by the number of replies so far; what comes ``Once``, or is an error, before its line.

    Not a ``ScriptedModel``: that one counts the replies it is shown, and here not all are shown.
    """

    def __init__(self, lines: Sequence[Any]) -> None:
        self._lines: list[Any] = []
        self._before: list[list[Exception | Once]] = [[]]
        for line in lines:
            if isinstance(line, (Exception, Once)):
                self._before[-1].append(line)
            else:
                self._lines.append(line)
                self._before.append([])

    def line(self, number: int) -> ModelReply:
        """The reply after ``number`` others, or what comes before it."""
        if self._before[number]:
            first = self._before[number].pop(0)
            if isinstance(first, Once):
                return first.reply
            raise first
        return as_reply(self._lines[number], "script")


class Crash(BaseException):
    """The process died here. Nothing that runs can catch it."""


@dataclass
class Paid:
    """What happened outside, and what of it a crash has made worthless."""

    replies: Counter[int] = field(default_factory=Counter)
    lost_replies: Counter[int] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    lost_runs: Counter[str] = field(default_factory=Counter)
    keys: dict[str, set[str]] = field(default_factory=dict)
    attempts: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class Driver:
    """One job of one agent.

    Attributes:
        arriving: messages of people, by the number of commits before which they do not come.
        crash: asked with the number of each instant, from 0, whether the process dies there.
            Instants are before and after each call, before and after each commit and end.
    """

    agent: Agent
    script: Script
    input: Any = "do it"
    crash: Instants = lambda _: False
    job_id: str = "job"
    messages: list[dict[str, Any]] = field(default_factory=list)
    run: str | None = None
    pause: Pause | None = None
    signal: Signal | None = None
    mail: list[Mail] = field(default_factory=list)
    arriving: dict[int, list[str]] = field(default_factory=dict)
    sizes: Sizes = DEFAULT_SIZES
    tries: int = 0
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    context: ActionContext | None = None
    sent: list[ModelRequest] = field(default_factory=list)
    requests: list[Sequence[dict[str, Any]]] = field(default_factory=list)
    commits: list[list[dict[str, Any]]] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    waits: list[Backoff] = field(default_factory=list)
    children: dict[str, int] = field(default_factory=dict)
    paid: Paid = field(default_factory=Paid)
    instant: int = 0
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _in_flight: list[tuple[Counter[Any], Any]] = field(default_factory=list)

    # --- the job's way -----------------------------------------------------------------------

    def go(self, answer: Callable[[Pause], Signal] | None = None) -> End:
        """Drive the job to its end, or to a pause that nobody answers."""
        for _ in range(MAX_SLICES):
            end = self.slice()
            if isinstance(end, (Finished, Failed)):
                return end
            if isinstance(end, Paused) and answer is None:
                return end
            if isinstance(end, Paused) and answer is not None:
                self.signal = answer(end.pause)
                assert self.signal.kind in end.pause.accepts
        raise AssertionError(f"no end after {MAX_SLICES} slices")

    def slice(self) -> End | None:
        """One claim: from what is written down to the next end; None if the process died."""
        self.tries += 1
        job = self._load()
        steps = advance(self.agent, job)
        answer: Any = None
        try:
            while True:
                try:
                    effect = steps.send(answer)
                except StopIteration as stop:
                    return self._end(job, stop.value)
                answer = self._perform(job, effect)
        except Crash:
            for counter, key in self._in_flight:
                counter[key] += 1
            return None
        finally:
            self._in_flight.clear()
            steps.close()

    def spec(self) -> JobSpec:
        """What was asked for."""
        return JobSpec(job_id=self.job_id, agent=self.agent.name, input=self.input)

    def _load(self) -> Job:
        return Job(
            spec=self.spec(),
            transcript=Transcript(json.loads(json.dumps(self.messages))),
            state=RunState.load(self.run),
            attempt=self.tries,
            pause=self.pause if self.signal is not None else None,
            signal=self.signal,
            mail=tuple(self.mail),
            sizes=self.sizes,
        )

    def state(self) -> RunState:
        """The run state as it was last written down."""
        return RunState.load(self.run)

    # --- performing ----------------------------------------------------------------------------

    def _moment(self) -> None:
        number, self.instant = self.instant, self.instant + 1
        if self.crash(number):
            raise Crash

    def _perform(self, job: Job, effect: Any) -> Any:
        self._moment()
        answer: Any
        match effect:
            case CallModel():
                answer = self._ask(effect)
            case CallTool():
                answer = self._run(effect)
            case CallTools(calls=calls):
                answer = tuple(map(self._run, calls))
            case StartJobs(jobs=jobs):
                answer = tuple(self._sub_job(sub.job_id) for sub in jobs)
            case Commit(kind=kind, data=data, messages=messages, consumes_signal=consumes):
                answer = None
                self.mail = [mail for mail in self.mail if mail.number > (effect.heard or 0)]
                self._write(job, kind, data, messages, consumes)
                job.mail = tuple(self.mail)
        self._moment()
        return answer

    def _ask(self, effect: CallModel) -> ModelAnswer:
        request = effect.request
        check_history(request.messages)
        self.sent.append(request)
        self.requests.append([dict(message) for message in request.messages])
        number = sum(m["role"] == "assistant" for m in self.messages)
        key = number if effect.model is None else -number
        try:
            model = effect.model
            reply = model.reply(request) if model is not None else self.script.line(number)
        except ModelError as error:
            return ModelAnswer(error, MODEL_MS)
        self.paid.replies[key] += 1
        self._in_flight.append((self.paid.lost_replies, key))
        return ModelAnswer(reply, MODEL_MS)

    def _run(self, call: CallTool) -> ToolAnswer:
        info = call.info
        self.paid.runs[info.call_id] += 1
        self.paid.keys.setdefault(info.call_id, set()).add(info.idempotency_key)
        self.paid.attempts.setdefault(info.call_id, []).append(info.attempt)
        self._in_flight.append((self.paid.lost_runs, info.call_id))
        try:
            result: Any = call.tool.invoke(
                call.arguments,
                self.context,
                info,
                texts=self.agent.texts,
                max_observation=self.agent.max_observation,
            )
        except PauseRequested as wish:
            result = wish
        return ToolAnswer(result, TOOL_MS)

    def _sub_job(self, job_id: str) -> SubResult | None:
        """A sub-job has ended when it is asked for the second time."""
        self.children[job_id] = self.children.get(job_id, 0) + 1
        if self.children[job_id] == 1:
            return None
        return SubResult(Outcome(ok=True, value=f"answer of {job_id}"), Tokens(3, 2), 11)

    # --- writing -------------------------------------------------------------------------------

    def _write(
        self,
        job: Job,
        kind: str,
        data: dict[str, Any],
        messages: list[dict[str, Any]],
        consumes: bool,
    ) -> None:
        written = json.loads(json.dumps(messages))
        self.commits.append(written)
        self.messages += written
        self.run = job.state.dump()
        self.tries = 1
        self.events.append((kind, json.loads(json.dumps(data))))
        if consumes:
            self.signal = self.pause = None
        for text in self.arriving.pop(len(self.commits), []):
            self.mail.append(Mail(number=next(self._numbers), text=text))
        answered = {m["tool_call_id"] for m in messages if m["role"] == "tool"}
        self._in_flight = [
            (lost, key)
            for lost, key in self._in_flight
            if lost is self.paid.lost_runs and key not in answered
        ]

    def _end(self, job: Job, end: End) -> End:
        self._moment()
        match end:
            case Finished(data=data):
                kind, data = "finished", data
            case Failed(data=data):
                kind, data = "failed", data
            case Paused(pause=pause):
                kind, data = "paused", {"pause": pause.id}
            case Backoff(text=text):
                kind, data = "retry", {"text": text}
            case Awaiting(jobs=jobs):
                kind, data = "awaiting", {"jobs": list(jobs)}
        self._write(job, kind, data, end.messages, end.consumes_signal)
        self._in_flight.clear()
        self.tries = 0
        if isinstance(end, Paused):
            self.pause = Pause.model_validate_json(end.pause.model_dump_json())
            self.pauses.append(self.pause)
        if isinstance(end, Backoff):
            self.waits.append(end)
        return end

    # --- reading -------------------------------------------------------------------------------

    @property
    def observations(self) -> list[str]:
        """What the model read of its calls, in the order in which they were answered."""
        return [m["content"] for m in self.messages if m["role"] == "tool"]

    def observation(self, call_id: str) -> str:
        """What the model read of one call; there is exactly one answer to it."""
        [text] = [m["content"] for m in self.messages if m.get("tool_call_id") == call_id]
        return str(text)

    def kinds(self) -> list[str]:
        """What was committed, by kind."""
        return [kind for kind, _ in self.events]


def check_history(messages: Sequence[dict[str, Any]]) -> None:
    """What the strictest provider asks of a request. Rules 4 and 8, row B4."""
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        role = message["role"]
        assert role in ("system", "user", "assistant", "tool"), role
        assert (role == "system") == (index == 0), "one system message, and it is the first"
        if role == "tool":
            assert open_calls, "an answer without a call"
            expected = open_calls.pop(0)
            assert message["tool_call_id"] == expected, "answers stand in the order of the calls"
            assert isinstance(message["content"], str)
            assert message["content"], "an answer is never empty"
            continue
        assert not open_calls, f"a {role} message while {open_calls} are unanswered"
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        assert len(set(open_calls)) == len(open_calls)
        for call in message.get("tool_calls") or ():
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert not open_calls, f"the model is asked while {open_calls} are unanswered"


def drive(
    agent: Agent,
    script: Sequence[Any],
    answer: Callable[[Pause], Signal] | None = None,
    **how: Any,
) -> tuple[Driver, End]:
    """Drive a job of ``agent`` whose model follows a script."""
    driver = Driver(agent, Script(script), **how)
    return driver, driver.go(answer)
