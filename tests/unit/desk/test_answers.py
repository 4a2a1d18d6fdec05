"""Which answers a pause takes, as schemas, and what is refused before the store is touched."""

from __future__ import annotations

import importlib.util
from typing import Any

import jsonschema
import pytest

from api_client import answers
from api_client.answers import answer_schemas, problems
from api_client.contract import SIGNAL, Pause, PauseKind, ProposedAction
from api_client.deciding import check_decision, parse_signal
from api_client.errors import NotAllowed, SignalRefused
from api_client.signals import SIGNAL_MODELS
from worker.pauses import ACCEPTS, make_pause

REFUND = ProposedAction(call_id="c1", tool="refund", arguments={"euro": 50})
EUROS = {
    "type": "object",
    "properties": {"euro": {"$ref": "#/$defs/Euro"}, "why": {"enum": ["late", "broken"]}},
    "required": ["euro"],
    "additionalProperties": False,
    "$defs": {"Euro": {"type": "integer"}},
}


def approval(*actions: ProposedAction, **fields: Any) -> Pause:
    pause = make_pause(
        PauseKind.APPROVAL,
        "May I?",
        number=1,
        step=1,
        actions=actions or (REFUND,),
        schemas={"approve": {"arguments": EUROS}},
    )
    return pause.model_copy(update=fields)


@pytest.fixture(params=["with jsonschema", "without"])
def checker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of checking."""
    if request.param == "without":
        monkeypatch.setattr(answers, "find_spec", lambda _name: None)
    else:
        assert importlib.util.find_spec("jsonschema")
    return str(request.param)


@pytest.mark.parametrize("kind", PauseKind)
def test_each_kind_of_pause_has_a_valid_schema_for_each_signal_it_takes(kind: PauseKind) -> None:
    pause = make_pause(kind, "?", number=1, step=1, action=REFUND)
    assert set(pause.answer_schema) == set(ACCEPTS[kind])
    for name, schema in pause.answer_schema.items():
        validator: Any = jsonschema.Draft202012Validator
        validator.check_schema(schema)
        assert schema["properties"]["kind"]["const"] == name
        assert {"by", "note"} <= set(schema["properties"])


def test_every_signal_has_a_schema_and_a_model() -> None:
    kinds = {kind for kinds in ACCEPTS.values() for kind in kinds} | {"decide"}
    assert kinds == set(SIGNAL_MODELS)
    for kind, model in SIGNAL_MODELS.items():
        assert model.model_fields["kind"].default == kind


GOOD: list[dict[str, Any]] = [
    {"kind": "approve"},
    {"kind": "approve", "arguments": None, "by": "anna"},
    {"kind": "approve", "arguments": {"euro": 5}},
    {"kind": "approve", "arguments": {"euro": 5, "why": "late"}},
    {"kind": "reject", "reason": "no"},
    {"kind": "finish", "answer": {"any": ["thing", 1]}},
    {"kind": "edit", "message": "look again"},
    {"kind": "fail", "reason": "no use"},
    {"kind": "cancel"},
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"kind": "approve", "arguments": {"nope": 1}},
     "arguments.nope: 1 is not expected; there are: euro, why"),
    ({"kind": "approve", "arguments": {"nope": 1}}, "arguments: 'euro' is"),
    ({"kind": "approve", "arguments": {}}, "euro"),
    ({"kind": "approve", "arguments": {"euro": "5"}}, "arguments"),
    ({"kind": "approve", "arguments": {"euro": 5.5}}, "arguments"),
    ({"kind": "approve", "arguments": {"euro": True}}, "arguments"),
    ({"kind": "approve", "arguments": {"euro": 5, "other": 1}}, "other"),
    ({"kind": "approve", "arguments": {"euro": 5, "why": "sad"}}, "sad"),
    ({"kind": "extend", "amount": 3}, "but: approve, reject, finish"),
    ({"kind": "decide", "calls": {"c1": {"approve": True}}}, "takes no 'decide'"),
]  # fmt: skip


@pytest.mark.parametrize("given", GOOD, ids=lambda given: str(given))
def test_what_fits_is_taken(checker: str, given: dict[str, Any]) -> None:
    check_decision("j", approval(), parse_signal(given))


@pytest.mark.parametrize(("given", "said"), BAD, ids=lambda value: str(value))
def test_what_does_not_fit_is_refused_and_named(
    checker: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(SignalRefused, match=said) as caught:
        check_decision("j", approval(), parse_signal(given))
    assert len(str(caught.value)) < 1500
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "answer"}, "value"),
        ({"kind": "answer", "value": "  "}, "empty"),
        ({"kind": "reject"}, "reason"),
        ({"kind": "edit"}, "give answers, a message, or both"),
        ({"kind": "decide", "calls": {}}, "calls"),
        ({"kind": "decide", "calls": {"c": {"approve": False}}}, "needs a reason"),
        ({"kind": "decide", "calls": {"c": {"approve": False, "reason": "x", "arguments": {}}}},
         "takes no arguments"),
        ({"kind": "dance"}, "dance"),
        ({"value": 1}, "kind"),
        ({"kind": "cancel", "hurry": True}, "hurry"),
    ],
)  # fmt: skip
def test_a_signal_of_the_wrong_form_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SignalRefused, match=said):
        parse_signal(given)


def test_several_actions_take_no_arguments_for_all_of_them(checker: str) -> None:
    pause = approval(REFUND, ProposedAction(call_id="c2", tool="mail"))
    assert pause.accepts[0] == "decide"
    check_decision("j", pause, parse_signal({"kind": "approve"}))
    with pytest.raises(SignalRefused, match="give changed arguments by call"):
        check_decision("j", pause, parse_signal({"kind": "approve", "arguments": {"euro": 1}}))


def test_who_may_not_answer_is_told_before_what_is_wrong_with_the_answer() -> None:
    with pytest.raises(NotAllowed, match="labels: leads"):
        check_decision("j", approval(labels=("leads",)), parse_signal(BAD[0][0]), ("sales",))


def test_a_kind_of_signal_that_is_not_known_yet_has_no_schema() -> None:
    assert answer_schemas(("answer", "sing"), {}).keys() == {"answer"}


@pytest.mark.parametrize(
    ("schema", "value", "wrong"),
    [
        ({"type": ["string", "null"]}, None, False),
        ({"type": ["string", "null"]}, 1, True),
        ({"type": "integer"}, 1.0, False),
        ({"type": "number"}, 1.5, False),
        ({"const": 1}, 2, True),
        ({"type": "array", "items": {"type": "string"}}, ["a", 1], True),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 1, False),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, [], True),
        ({"additionalProperties": {"type": "integer"}}, {"a": "b"}, True),
        ({"$ref": "#/$defs/N", "$defs": {"N": {"type": "integer"}}}, "x", True),
        ({}, {"anything": 1}, False),
    ],
    ids=str,
)
def test_the_small_checker_agrees_with_the_large_one(
    monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any], value: Any, wrong: bool
) -> None:
    assert bool(list(problems(schema, value))) is wrong
    monkeypatch.setattr(answers, "find_spec", lambda _name: None)
    assert bool(list(problems(schema, value))) is wrong


def test_a_schema_that_refers_to_itself_is_no_endless_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "find_spec", lambda _name: None)
    schema = {"$ref": "#/$defs/L", "$defs": {"L": {"$ref": "#/$defs/L"}}}
    assert list(problems(schema, 1)) == []


def test_what_is_stored_of_a_pause_is_small_and_comes_back_whole() -> None:
    pause = make_pause(PauseKind.HAND_TO_HUMAN, "May I?", number=1, step=1, action=REFUND)
    text = pause.stored()
    assert len(text) < 300
    assert Pause.model_validate_json(text) == pause
    shown = pause.model_dump(mode="json")
    assert shown["answer_schema"]["answer"]["required"] == ["kind", "value"]
    assert Pause.model_validate(shown) == pause


def test_a_signal_survives_its_way_as_json() -> None:
    for given in GOOD:
        signal = parse_signal(given)
        assert SIGNAL.validate_json(signal.model_dump_json()) == signal
