"""What was seen of a job, held against what is expected of it. Every failure says both."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from api_client.errors import InvalidInput
from worker.evaluation.seen import Seen, SeenAction
from worker.evaluation.suite import Bounds, Expect, ExpectedAction, ExpectedObservation

_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Failure:
    """A check that failed: the field of ``expect``, and why in one line."""

    check: str
    text: str


def failures(expect: Expect, seen: Seen) -> list[Failure]:
    """Every check that fails, in the order in which one wants to read them."""
    return [Failure(name, text) for name, check in CHECKS.items() for text in check(expect, seen)]


def _outcome(expect: Expect, seen: Seen) -> Iterator[str]:
    if seen.outcome != expect.outcome:
        why = f": {seen.text}" if seen.text else ""
        reason = f" ({seen.reason})" if seen.reason else ""
        yield f"expected {expect.outcome}, it is {seen.outcome}{reason}{why}"
    elif expect.reason is not None and seen.reason != expect.reason:
        yield f"expected the reason {expect.reason}, it is {seen.reason or 'none'}: {seen.text}"


def _answer(expect: Expect, seen: Seen) -> Iterator[str]:
    wanted = expect.answer
    if wanted is None or seen.outcome != "succeeded":
        return
    text = seen.answer if isinstance(seen.answer, str) else _json(seen.answer)
    if "equals" in wanted.model_fields_set and seen.answer != wanted.equals:
        yield f"expected {_json(wanted.equals)}, it is {_json(seen.answer)}"
    for part in wanted.contains:
        if part not in text:
            yield f"expected {_json(part)} in it, it is {_json(seen.answer)}"
    if wanted.matches is not None and not re.search(wanted.matches, text):
        yield f"expected a match of /{wanted.matches}/, it is {_json(seen.answer)}"
    for place, value in wanted.at.items():
        found = _at(seen.answer, place)
        if found != [value]:
            given = _json(found[0]) if found else "nothing"
            yield f"expected {_json(value)} at {place}, there is {given}"
    if wanted.json_schema is not None:
        yield from _against(wanted.json_schema, seen.answer)


def _at(value: Any, place: str) -> list[Any]:
    """The value at a place, alone in a list; an empty list if there is none."""
    for name in place.split("."):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return []
    return [value]


def _against(schema: dict[str, Any], answer: Any) -> Iterator[str]:
    try:
        from jsonschema import Draft202012Validator
    except ModuleNotFoundError:
        raise InvalidInput(
            "expect.answer.schema needs the package jsonschema: pip install 'stepkeeper[mcp]'"
        ) from None
    for error in Draft202012Validator(schema).iter_errors(answer):
        place = ".".join(str(part) for part in error.absolute_path) or "the answer"
        yield f"{place} does not follow the schema: {_short(error.message)}"


def _actions(expect: Expect, seen: Seen) -> Iterator[str]:
    if expect.actions is None:
        return
    for number in range(max(len(expect.actions), len(seen.actions))):
        wanted = expect.actions[number] if number < len(expect.actions) else None
        found = seen.actions[number] if number < len(seen.actions) else None
        if wanted is None or found is None or not _is(wanted, found):
            yield (
                f"expected {_wanted(wanted)} as action {number + 1}, it is {_found(found)}"
                f"; all: {_all(seen.actions)}"
            )
            return


def _actions_include(expect: Expect, seen: Seen) -> Iterator[str]:
    rest = iter(seen.actions)
    for wanted in expect.actions_include:
        if not any(_is(wanted, found) for found in rest):
            yield f"expected {_wanted(wanted)} at its place in the order; all: {_all(seen.actions)}"
            return


def _is(wanted: ExpectedAction, found: SeenAction) -> bool:
    if wanted.tool != found.tool:
        return False
    if wanted.arguments is not None and wanted.arguments != found.arguments:
        return False
    given = found.arguments if isinstance(found.arguments, dict) else {}
    return all(name in given and given[name] == v for name, v in wanted.including.items())


def _forbidden(expect: Expect, seen: Seen) -> Iterator[str]:
    for number, action in enumerate(seen.actions, 1):
        if action.tool in expect.forbidden:
            yield f"{_found(action)} was called, as action {number}"


def _observations(expect: Expect, seen: Seen) -> Iterator[str]:
    for wanted in expect.observations:
        looked_at = [
            action.observation or ""
            for number, action in enumerate(seen.actions, 1)
            if wanted.action in (None, number) and wanted.tool in (None, action.tool)
        ]
        if not any(wanted.contains in text for text in looked_at):
            shown = " | ".join(_short(text) for text in looked_at) or "none"
            yield f"expected {_json(wanted.contains)} in {_whose(wanted)}, there is: {shown}"


def _whose(wanted: ExpectedObservation) -> str:
    number = "an observation" if wanted.action is None else f"observation {wanted.action}"
    return number if wanted.tool is None else f"{number} of {wanted.tool}"


def _steps(expect: Expect, seen: Seen) -> Iterator[str]:
    yield from _within(expect.steps, seen.steps, "steps")


def _tokens(expect: Expect, seen: Seen) -> Iterator[str]:
    yield from _within(expect.tokens, seen.tokens, "tokens")


def _within(bounds: Bounds | None, number: int, what: str) -> Iterator[str]:
    if bounds is None:
        return
    if bounds.exactly is not None and number != bounds.exactly:
        yield f"expected {bounds.exactly} {what}, it took {number}"
    if bounds.at_least is not None and number < bounds.at_least:
        yield f"expected at least {bounds.at_least} {what}, it took {number}"
    if bounds.at_most is not None and number > bounds.at_most:
        yield f"expected at most {bounds.at_most} {what}, it took {number}"


def _pauses(expect: Expect, seen: Seen) -> Iterator[str]:
    if expect.pauses is not None and tuple(map(str, expect.pauses)) != seen.pauses:
        wanted = ", ".join(map(str, expect.pauses)) or "none"
        yield f"expected the pauses {wanted}; there were {', '.join(seen.pauses) or 'none'}"


def _descriptions(expect: Expect, seen: Seen) -> Iterator[str]:
    for name, wanted in expect.descriptions.items():
        found = seen.descriptions.get(name)
        if found is None:
            yield f"expected a tool {name}; there are {', '.join(seen.descriptions) or 'none'}"
        elif found != wanted:
            yield f"expected {name} to be told as {_json(wanted)}, it is {_json(found)}"


def _fingerprint(expect: Expect, seen: Seen) -> Iterator[str]:
    if expect.fingerprint is not None and expect.fingerprint != seen.fingerprint:
        yield (
            f"the tools are not those that were recorded: expected {expect.fingerprint}, it is "
            f"{seen.fingerprint}; a name, a description or a parameter has changed"
        )


CHECKS: dict[str, Callable[[Expect, Seen], Iterator[str]]] = {
    "outcome": _outcome,
    "answer": _answer,
    "actions": _actions,
    "actions_include": _actions_include,
    "forbidden": _forbidden,
    "observations": _observations,
    "steps": _steps,
    "tokens": _tokens,
    "pauses": _pauses,
    "descriptions": _descriptions,
    "fingerprint": _fingerprint,
}


def _wanted(action: ExpectedAction | None) -> str:
    if action is None:
        return "no action"
    if action.arguments is not None:
        return _call(action.tool, action.arguments)
    if action.including:
        return f"{_call(action.tool, action.including)[:-1]}, …)"
    return f"{action.tool}(…)"


def _found(action: SeenAction | None) -> str:
    return "none" if action is None else _call(action.tool, action.arguments)


def _all(actions: Sequence[SeenAction]) -> str:
    return _short(", ".join(_found(action) for action in actions)) or "none"


def _call(tool: str, arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return _short(f"{tool}({arguments})")
    named = ", ".join(f"{name}={_json(value)}" for name, value in arguments.items())
    return _short(f"{tool}({named})")


def _json(value: Any) -> str:
    return _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
