"""The state in which a job stood before one of its steps, out of its transcript and its trace.

A rerun begins there: with the messages before that step's reply, and with what had been spent.
What people have granted is not taken along: the new job has its agent's own budgets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from api_client.admin import Beginning
from api_client.contract import Event, JobView
from api_client.errors import InvalidInput
from api_client.sizes import size_of
from worker.loop import input_text
from worker.messages import Message, Transcript, system, user
from worker.state import RunState, Tokens

_HEAD = 2
"""Messages that every transcript begins with: goal and task."""


def beginning(
    view: JobView,
    messages: Sequence[Message],
    events: Sequence[Event],
    step: int,
    *,
    version: str = "",
    goal: str | None = None,
    input: Any = None,
) -> Beginning:
    """What a job begins with that goes on from before a step of another one.

    Args:
        events: the whole trace, oldest first.
        step: the first one that is done anew, from 1.
        version: of the agent's code that will run it.
        goal, input: in place of those that the transcript begins with.

    Raises:
        InvalidInput: the job has made no such step.
    """
    place = _place(view, messages, events, step)
    kept = [dict(message) for message in messages[:place]]
    if goal is not None:
        kept[0] = system(goal)
    if input is not None:
        kept[1] = user(input_text(input))
    Transcript(kept).request()  # every call before a reply has been answered
    past = [event for event in events if _is_before(event, place)]
    state = _state(past, messages)
    state.version, state.steps = version, step - 1
    state.stored = sum(map(size_of, kept))
    record = {"rerun_of": view.job_id, "from_step": step}
    return Beginning(kept, state.dump(), record)


def _place(view: JobView, messages: Sequence[Message], events: Sequence[Event], step: int) -> int:
    """Index of the step's reply."""
    for event in events:
        index = event.data.get("i")
        if (
            event.data.get("s") == step
            and isinstance(index, int)
            and _HEAD <= index < len(messages)
            and messages[index].get("role") == "assistant"
        ):
            return index
    raise InvalidInput(
        f"job {view.job_id} has made {view.steps} steps, none of them is step {step}; "
        "give one from 1 on (see: stepkeeper trace)"
    )


def _is_before(event: Event, place: int) -> bool:
    """Whether a record tells of a message before the cut."""
    index = event.data.get("i")
    return isinstance(index, int) and index < place


def _state(past: Sequence[Event], messages: Sequence[Message]) -> RunState:
    state = RunState()
    names = {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls") or ()
    }
    for event in past:
        _spend(state.usage, event.data)
        state.active_ms += _number(event.data, "ms")
        if event.kind == "observation":
            _count(state, event, messages, names)
        elif event.kind == "summary":
            state.summary = [_number(event.data, "upto"), _number(event.data, "i")]
    return state


def _spend(account: Tokens, data: Mapping[str, Any]) -> None:
    account.prompt_tokens += _number(data, "in")
    account.completion_tokens += _number(data, "out")
    account.cost_micros += round(float(data.get("cost") or 0) * 1e6)
    account.estimated = account.estimated or bool(data.get("est"))


def _count(
    state: RunState, event: Event, messages: Sequence[Message], names: Mapping[str, str]
) -> None:
    """One execution of a tool; a call that was refused took no time and is none."""
    if event.data.get("error") and not event.data.get("ms"):
        return
    name = names.get(str(messages[_number(event.data, "i")].get("tool_call_id")))
    if name is not None:
        state.calls[name] = state.calls.get(name, 0) + 1


def _number(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    return value if isinstance(value, int) else 0
