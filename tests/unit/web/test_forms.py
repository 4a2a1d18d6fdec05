"""Fields out of schemas, values out of forms, and signals out of both."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from api_client.contract import SIGNAL, Pause, PauseKind, ProposedAction
from worker.pauses import ACCEPTS
from worker.web.console.decisions import forms_of, read_decision
from worker.web.console.forms import (
    UNSET,
    Problems,
    fields_of,
    guessed,
    read_field,
    read_fields,
)


class Address(BaseModel):
    street: str
    number: int = 1


class Order(BaseModel):
    order_id: str
    amount: float
    count: int
    way: Literal["card", "voucher"] = "card"
    mail: bool = True
    note: str | None = None
    limit: int | None = None
    address: Address = Field(default_factory=lambda: Address(street="Here"))
    tags: list[str] = Field(default_factory=list)


VALUES: dict[str, Any] = {
    "order_id": "1187",
    "amount": 50.0,
    "count": 2,
    "address": {"street": "Elm", "number": 7},
    "tags": ["a", "b"],
}


def order_fields() -> Any:
    return fields_of(Order.model_json_schema(), VALUES, "arg")


def texts(fields: Any) -> dict[str, str]:
    """A form as a browser sends it back untouched."""
    found: dict[str, str] = {}
    for field in fields:
        found |= texts(field.inner) if field.kind == "group" else {field.name: field.text}
    return found


def test_every_kind_of_field_is_found() -> None:
    kinds = {field.name: field.kind for field in order_fields()}
    assert kinds == {
        "arg.order_id": "text",
        "arg.amount": "number",
        "arg.count": "whole",
        "arg.way": "choice",
        "arg.mail": "truth",
        "arg.note": "text",
        "arg.limit": "whole",
        "arg.address": "group",
        "arg.tags": "json",
    }
    by_name = {field.name: field for field in order_fields()}
    assert by_name["arg.way"].choices == (('"card"', "card"), ('"voucher"', "voucher"))
    assert [field.name for field in by_name["arg.address"].inner] == [
        "arg.address.street",
        "arg.address.number",
    ]
    assert by_name["arg.limit"].nullable
    assert by_name["arg.order_id"].required
    assert not by_name["arg.way"].required


def test_an_untouched_form_gives_back_what_stood_there() -> None:
    fields = order_fields()
    assert read_fields(fields, texts(fields)) == VALUES


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("order_id", "1188", "1188"),
        ("amount", "25", 25.0),
        ("amount", " 25.5 ", 25.5),
        ("amount", "25,5", 25.5),
        ("count", "3", 3),
        ("count", "9007199254740993", 9007199254740993),
        ("way", '"voucher"', "voucher"),
        ("mail", "false", False),
        ("note", "two\r\nlines", "two\nlines"),
        ("limit", "5", 5),
        ("tags", '["c"]', ["c"]),
    ],
)
def test_what_was_typed_is_read(name: str, typed: str, value: Any) -> None:
    fields = order_fields()
    read = read_fields(fields, {**texts(fields), f"arg.{name}": typed})
    assert read[name] == value
    assert type(read[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "typed", "sentence"),
    [
        ("amount", "much", "error_number"),
        ("amount", "nan", "error_number"),
        ("amount", "1e999", "error_number"),
        ("amount", "", "error_missing"),
        ("count", "2.5", "error_whole"),
        ("way", '"cheque"', "error_choice"),
        ("mail", "maybe", "error_choice"),
        ("tags", "[1", "error_json"),
        ("tags", "[NaN]", "error_json"),
        ("tags", "[" * 100_000, "error_json"),
        ("address.number", "x", "error_number"),
    ],
)
def test_what_cannot_be_used_is_named(name: str, typed: str, sentence: str) -> None:
    fields = order_fields()
    with pytest.raises(Problems) as raised:
        read_fields(fields, {**texts(fields), f"arg.{name}": typed})
    assert {place: problem[0] for place, problem in raised.value.found.items()} == {
        f"arg.{name}": sentence
    }


def test_every_problem_is_told_at_once() -> None:
    fields = order_fields()
    typed = {**texts(fields), "arg.amount": "x", "arg.count": "y"}
    with pytest.raises(Problems) as raised:
        read_fields(fields, typed)
    assert set(raised.value.found) == {"arg.amount", "arg.count"}


def test_an_optional_field_that_was_emptied_is_left_out_or_null() -> None:
    fields = fields_of(Order.model_json_schema(), {**VALUES, "limit": 5, "mail": True}, "arg")
    read = read_fields(fields, {**texts(fields), "arg.limit": "", "arg.mail": ""})
    assert read["limit"] is None
    assert "mail" not in read


@pytest.mark.parametrize(
    "text", ["a\r\nb", "a\rb", "tab\there", "nul\0here", "rtl\u202etxt", " x "]
)
def test_a_text_that_a_browser_changes_is_still_untouched(text: str) -> None:
    (field,) = fields_of({}, {"note": text}, "arg")
    sent = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    assert read_field(field, {field.name: sent.replace("\n", "\r\n")}) == text


@pytest.mark.parametrize("value", ["text", 1, 1.5, True, None, [1, {"a": None}], {"b": "c"}])
def test_a_value_without_a_schema_has_a_field_all_the_same(value: Any) -> None:
    (field,) = fields_of({}, {"x": value}, "arg")
    assert read_field(field, {"arg.x": field.text}) == value
    assert isinstance(guessed(value), dict)


def test_references_that_go_round_in_circles_end() -> None:
    loop = {"properties": {"x": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}}
    (field,) = fields_of(loop, {}, "arg")
    assert (field.kind, read_field(field, {"arg.x": '{"y": 1}'})) == ("json", {"y": 1})
    deep = Tree.model_json_schema()
    assert fields_of(deep, {"leaf": {"leaf": {"leaf": {"leaf": None}}}}, "arg")


class Tree(BaseModel):
    leaf: Tree | None = None


# --- decisions ------------------------------------------------------------------------------

REFUND = ProposedAction(
    call_id="call_2", tool="refund", arguments={"order": "1187", "amount": 50.0}
)
PARAMETERS = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "number", "minimum": 0}},
    "required": ["order", "amount"],
    "additionalProperties": False,
}


def pause(kind: PauseKind, **fields: Any) -> Pause:
    """A pause of this kind."""
    asked = {"id": "p1", "kind": kind, "question": "?", "accepts": ACCEPTS[kind]}
    return Pause.model_validate({**asked, **fields})


APPROVAL = pause(PauseKind.APPROVAL, action=REFUND, schemas={"approve": {"arguments": PARAMETERS}})
SEVERAL = pause(
    PauseKind.APPROVAL,
    accepts=("decide", *ACCEPTS[PauseKind.APPROVAL]),
    action=REFUND,
    actions=(REFUND, ProposedAction(call_id="call_3", tool="mail", arguments={"to": "x"})),
)


@pytest.mark.parametrize("kind", PauseKind)
def test_every_pause_has_a_form_for_each_signal_it_takes(kind: PauseKind) -> None:
    forms = forms_of(pause(kind, action=REFUND))
    assert {form.kind for form in forms} == set(ACCEPTS[kind])
    assert [form.folded for form in forms] == sorted(form.folded for form in forms)
    assert not forms[0].folded


def test_a_signal_of_a_newer_version_has_no_form() -> None:
    forms = forms_of(pause(PauseKind.OPERATOR, accepts=("retry", "sing")))
    assert [form.kind for form in forms] == ["retry"]


@pytest.mark.parametrize(
    ("asked", "kind", "form", "signal"),
    [
        (pause(PauseKind.HAND_TO_HUMAN), "answer", {"answer.value": "yes"}, {"value": "yes"}),
        (
            pause(PauseKind.APPROVAL, action=REFUND),
            "reject",
            {"reject.reason": "no"},
            {"reason": "no"},
        ),
        (pause(PauseKind.BUDGET), "extend", {"extend.amount": "5"}, {"amount": 5.0}),
        (pause(PauseKind.BUDGET), "finish", {"finish.answer": "enough"}, {"answer": "enough"}),
        (pause(PauseKind.OPERATOR), "retry", {}, {}),
        (
            pause(PauseKind.UNKNOWN_OUTCOME),
            "happened",
            {"happened.result": "done"},
            {"result": "done"},
        ),
        (pause(PauseKind.UNKNOWN_OUTCOME), "did_not_happen", {}, {}),
        (pause(PauseKind.OPERATOR), "fail", {"fail.reason": "broken"}, {"reason": "broken"}),
        (pause(PauseKind.OPERATOR), "cancel", {}, {}),
        (APPROVAL, "approve", {"approve.order": "1187", "approve.amount": "50.0"}, {}),
        (
            APPROVAL,
            "approve",
            {"approve.order": "1187", "approve.amount": "25"},
            {"arguments": {"order": "1187", "amount": 25.0}},
        ),
        (
            SEVERAL,
            "decide",
            {
                "decide.call_2.verdict": "true",
                "decide.call_2.arg.order": "1187",
                "decide.call_2.arg.amount": "50.0",
                "decide.call_3.verdict": "false",
                "decide.call_3.reason": "no mails",
            },
            {
                "calls": {
                    "call_2": {"approve": True},
                    "call_3": {"approve": False, "reason": "no mails"},
                }
            },
        ),
        (
            pause(
                PauseKind.OPERATOR,
                schemas={
                    "edit": {
                        "answers": {"type": "object", "properties": {"call_9": {"title": "refund"}}}
                    }
                },
            ),
            "edit",
            {"edit.answers.call_9": "refunded by hand", "edit.message": "Be brief."},
            {"answers": {"call_9": "refunded by hand"}, "message": "Be brief."},
        ),
    ],
)
def test_a_form_becomes_a_signal(
    asked: Pause, kind: str, form: dict[str, str], signal: dict[str, Any]
) -> None:
    read = read_decision(asked, kind, {**form, "note": " why "})
    assert read == {"kind": kind, "note": "why", **signal}
    assert SIGNAL.validate_python(read).kind == kind


@pytest.mark.parametrize(
    ("asked", "kind", "form", "field"),
    [
        (pause(PauseKind.HAND_TO_HUMAN), "answer", {}, "answer.value"),
        (APPROVAL, "approve", {"approve.order": "1", "approve.amount": "x"}, "approve.amount"),
        (SEVERAL, "decide", {}, "decide.call_2.verdict"),
        (SEVERAL, "decide", {"decide.call_3.verdict": "false"}, "decide.call_3.reason"),
        (pause(PauseKind.OPERATOR), "edit", {}, "edit.message"),
        (pause(PauseKind.BUDGET), "extend", {"extend.amount": ""}, "extend.amount"),
    ],
)
def test_a_form_that_says_nothing_is_refused(
    asked: Pause, kind: str, form: dict[str, str], field: str
) -> None:
    with pytest.raises(Problems) as raised:
        read_decision(asked, kind, form)
    assert field in raised.value.found


def test_a_typed_answer_has_the_fields_of_its_type() -> None:
    schema = {"answer": {"value": Address.model_json_schema()}}
    asked = pause(PauseKind.HAND_TO_HUMAN, schemas=schema)
    (form, *_) = forms_of(asked)
    assert form.fields[0].kind == "group"
    typed = {"answer.value.street": "Elm", "answer.value.number": "3"}
    assert read_decision(asked, "answer", typed)["value"] == {"street": "Elm", "number": 3}


def test_several_actions_are_approved_without_arguments() -> None:
    form = next(form for form in forms_of(SEVERAL) if form.kind == "approve")
    assert form.fields == ()
    assert read_decision(SEVERAL, "approve", {}) == {"kind": "approve"}


def test_what_was_not_given_is_no_value() -> None:
    assert UNSET is not None
