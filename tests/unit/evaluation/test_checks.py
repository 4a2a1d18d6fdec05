"""Each check: what passes it, and the words in which it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from worker.evaluation.checks import CHECKS, failures
from worker.evaluation.seen import Seen, SeenAction
from worker.evaluation.suite import Expect

SEEN = Seen(
    outcome="succeeded",
    reason="",
    text="",
    answer={"value": 420, "items": [{"name": "Stift"}]},
    actions=(
        SeenAction("add", {"a": 200, "b": 10}, "210"),
        SeenAction("multiply", {"a": 210, "b": 2}, "420"),
        SeenAction("save", '{"broken', "Error: not JSON"),
    ),
    steps=4,
    tokens=270,
    pauses=("approval", "hand_to_human"),
    descriptions={"add": "Adds two numbers."},
    fingerprint="abc",
)
TEXT = replace(SEEN, answer="It is 420.")
FAILED = replace(SEEN, outcome="failed", reason="max_steps", text="too many", answer=None)


def told(seen: Seen, **expect: Any) -> list[str]:
    return [f"{f.check}: {f.text}" for f in failures(Expect.model_validate(expect), seen)]


@pytest.mark.parametrize(
    ("seen", "expect"),
    [
        (SEEN, {}),
        (FAILED, {"outcome": "failed", "reason": "max_steps", "answer": "not looked at"}),
        (TEXT, {"answer": "It is 420."}),
        (TEXT, {"answer": {"contains": ["It", "420"], "matches": r"\d+\.$"}}),
        (SEEN, {"answer": {"contains": "Stift", "at": {"value": 420, "items.0.name": "Stift"}}}),
        (SEEN, {"answer": {"schema": {"type": "object", "required": ["value"]}}}),
        (SEEN, {"actions": ["add", {"tool": "multiply", "arguments": {"a": 210, "b": 2}}, "save"]}),
        (SEEN, {"actions_include": ["add", "save"]}),
        (SEEN, {"actions_include": [{"tool": "multiply", "including": {"b": 2}}]}),
        (SEEN, {"forbidden": ["pay"]}),
        (SEEN, {"observations": [{"contains": "42"}, {"contains": "21", "action": 1}]}),
        (SEEN, {"steps": 4, "tokens": {"at_least": 270, "at_most": 270}}),
        (SEEN, {"pauses": ["approval", "hand_to_human"]}),
        (SEEN, {"descriptions": {"add": "Adds two numbers."}, "fingerprint": "abc"}),
    ],
)
def test_what_holds(seen: Seen, expect: dict[str, Any]) -> None:
    assert told(seen, **expect) == []


@pytest.mark.parametrize(
    ("seen", "expect", "text"),
    [
        (FAILED, {}, "outcome: expected succeeded, it is failed (max_steps): too many"),
        (
            FAILED,
            {"outcome": "failed", "reason": "refused"},
            "outcome: expected the reason refused, it is max_steps: too many",
        ),
        (TEXT, {"answer": "It is 421."}, 'answer: expected "It is 421.", it is "It is 420."'),
        (TEXT, {"answer": {"equals": None}}, 'answer: expected null, it is "It is 420."'),
        (TEXT, {"answer": {"contains": "x"}}, 'answer: expected "x" in it, it is "It is 420."'),
        (
            TEXT,
            {"answer": {"matches": "^42"}},
            'answer: expected a match of /^42/, it is "It is 420."',
        ),
        (SEEN, {"answer": {"at": {"value": 421}}}, "answer: expected 421 at value, there is 420"),
        (
            SEEN,
            {"answer": {"at": {"items.1.name": "x"}}},
            'answer: expected "x" at items.1.name, there is nothing',
        ),
        (
            SEEN,
            {"answer": {"schema": {"properties": {"value": {"type": "string"}}}}},
            "answer: value does not follow the schema: 420 is not of type 'string'",
        ),
        (
            SEEN,
            {"actions": ["add", {"tool": "multiply", "arguments": {"a": 210, "b": 3}}, "save"]},
            (
                "actions: expected multiply(a=210, b=3) as action 2, it is multiply(a=210, b=2); "
                'all: add(a=200, b=10), multiply(a=210, b=2), save({"broken)'
            ),
        ),
        (
            SEEN,
            {"actions": ["add", "multiply"]},
            (
                'actions: expected no action as action 3, it is save({"broken); all: '
                'add(a=200, b=10), multiply(a=210, b=2), save({"broken)'
            ),
        ),
        (
            replace(SEEN, actions=()),
            {"actions": ["add"]},
            "actions: expected add(…) as action 1, it is none; all: none",
        ),
        (
            SEEN,
            {"actions_include": ["multiply", {"tool": "add", "including": {"a": 200}}]},
            (
                "actions_include: expected add(a=200, …) at its place in the order; all: "
                'add(a=200, b=10), multiply(a=210, b=2), save({"broken)'
            ),
        ),
        (
            SEEN,
            {"forbidden": "add"},
            "forbidden: add(a=200, b=10) was called, as action 1",
        ),
        (
            SEEN,
            {"observations": [{"contains": "99", "tool": "add"}]},
            'observations: expected "99" in an observation of add, there is: 210',
        ),
        (
            SEEN,
            {"observations": [{"contains": "99", "action": 7}]},
            'observations: expected "99" in observation 7, there is: none',
        ),
        (SEEN, {"steps": 3}, "steps: expected 3 steps, it took 4"),
        (SEEN, {"steps": {"at_least": 5}}, "steps: expected at least 5 steps, it took 4"),
        (SEEN, {"tokens": {"at_most": 9}}, "tokens: expected at most 9 tokens, it took 270"),
        (
            SEEN,
            {"pauses": []},
            "pauses: expected the pauses none; there were approval, hand_to_human",
        ),
        (
            SEEN,
            {"descriptions": {"add": "Adds."}},
            'descriptions: expected add to be told as "Adds.", it is "Adds two numbers."',
        ),
        (
            SEEN,
            {"descriptions": {"sub": "Subtracts."}},
            "descriptions: expected a tool sub; there are add",
        ),
        (
            SEEN,
            {"fingerprint": "abd"},
            (
                "fingerprint: the tools are not those that were recorded: expected abd, it is abc; "
                "a name, a description or a parameter has changed"
            ),
        ),
    ],
)
def test_what_does_not_hold_is_told_with_both_sides(
    seen: Seen, expect: dict[str, Any], text: str
) -> None:
    assert told(seen, **expect) == [text]


def test_every_check_that_fails_is_told() -> None:
    found = told(SEEN, steps=1, tokens=1, pauses=[], forbidden=["add", "multiply"])
    assert [text.partition(":")[0] for text in found] == [
        "forbidden",
        "forbidden",
        "steps",
        "tokens",
        "pauses",
    ]


def test_every_expectation_has_its_check() -> None:
    assert set(CHECKS) == set(Expect.model_fields) - {"reason"}


def test_a_long_answer_is_shown_short() -> None:
    (text,) = told(replace(SEEN, answer="x" * 10_000), answer="y")
    assert len(text) < 400
