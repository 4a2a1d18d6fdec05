"""The forms that a pause asks for, and the signals that they become. Pure functions of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api_client.contract import Pause, ProposedAction
from worker.web.console.forms import (
    UNSET,
    Field,
    Form,
    Problems,
    Schema,
    fields_of,
    one_field,
    read_field,
    read_fields,
    resolved,
)

PRIMARY = ("answer", "approve", "decide", "extend", "retry", "happened", "did_not_happen", "reject")
"""Kinds whose forms stand open; the others are folded."""

HARMLESS = frozenset({"answer", "approve", "decide", "extend", "retry", "happened"})
"""Kinds that let the job go on as it was meant to."""

_TEXT: Schema = {"type": "string"}
_LINES: Schema = {"type": "string", "maxLength": 100_000}
_SAME = "true"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several proposed actions: approve it, refuse it, or leave it open."""

    action: ProposedAction
    verdict: Field
    reason: Field
    arguments: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """The form of one kind of signal.

    Attributes:
        folded: behind a line that opens it.
    """

    kind: str
    fields: tuple[Field, ...] = ()
    choices: tuple[Choice, ...] = ()
    folded: bool = False

    @property
    def harmless(self) -> bool:
        """Whether it lets the job go on."""
        return self.kind in HARMLESS


def forms_of(pause: Pause) -> list[DecisionForm]:
    """A form for each kind of signal that the pause takes and this version knows."""
    schemas = pause.answer_schema
    several = bool(pause.actions)
    kinds = [kind for kind in pause.accepts if kind in schemas]
    made = [_form(pause, kind, schemas[kind], several) for kind in kinds]
    return sorted(made, key=lambda form: form.folded)


def _form(pause: Pause, kind: str, schema: Schema, several: bool) -> DecisionForm:
    folded = kind not in PRIMARY
    match kind:
        case "approve" if not several:
            return DecisionForm(kind, _arguments(pause, schema), folded=folded)
        case "decide":
            choices = tuple(_choice(action, schema) for action in pause.actions)
            return DecisionForm(kind, choices=choices, folded=folded)
        case "edit":
            return DecisionForm(kind, _edit_fields(schema), folded=folded)
    return DecisionForm(kind, _own_fields(kind, schema), folded=folded)


def _own_fields(kind: str, schema: Schema) -> tuple[Field, ...]:
    """The field that belongs to a kind alone, if it has one."""
    name = {
        "answer": "value",
        "reject": "reason",
        "fail": "reason",
        "extend": "amount",
        "finish": "answer",
        "happened": "result",
    }.get(kind)
    if name is None:
        return ()
    own = _property(schema, name)
    described = any(key in resolved(own) for key in ("type", "anyOf", "enum", "const", "oneOf"))
    if kind in ("reject", "fail"):
        own = {key: value for key, value in own.items() if key != "maxLength"}
    shape = own if described else {**_LINES, **_default(own)}
    label = "field_fail_reason" if kind == "fail" else f"field_{name}"
    return (one_field({**shape, "title": ""}, f"{kind}.{name}", label),)


def _default(schema: Schema) -> dict[str, Any]:
    return {"default": schema["default"]} if "default" in schema else {}


def _property(schema: Schema, name: str) -> dict[str, Any]:
    """One property of a signal's schema, with the definitions that it may refer to."""
    found = dict(schema.get("properties", {}).get(name, {}))
    return {**found, "$defs": schema["$defs"]} if "$defs" in schema else found


def _arguments(pause: Pause, schema: Schema) -> tuple[Field, ...]:
    """The fields of the proposed action's arguments."""
    if pause.action is None:
        return ()
    wanted = _property(schema, "arguments")
    return _argument_fields(wanted, pause.action, "approve")


def _argument_fields(wanted: Schema, action: ProposedAction, prefix: str) -> tuple[Field, ...]:
    options = wanted.get("anyOf", [wanted])
    shape: Schema = next((option for option in options if option.get("properties")), {})
    defs = {**wanted.get("$defs", {}), **shape.get("$defs", {})}
    return fields_of({**shape, "$defs": defs}, action.arguments, prefix)


def _choice(action: ProposedAction, schema: Schema) -> Choice:
    calls = _property(schema, "calls")
    own = calls.get("properties", {}).get(action.call_id, {})
    wanted = own.get("properties", {}).get("arguments", {})
    prefix = f"decide.{action.call_id}"
    verdict = Field(
        f"{prefix}.verdict",
        "field_approve_this",
        "choice",
        required=False,
        choices=(("", "leave_open"), ("true", "act_approve"), ("false", "act_reject")),
    )
    reason = Field(f"{prefix}.reason", "field_reason", "text", required=False)
    return Choice(action, verdict, reason, _argument_fields(wanted, action, f"{prefix}.arg"))


def _edit_fields(schema: Schema) -> tuple[Field, ...]:
    """A field for each open call, and the message."""
    calls = _property(schema, "answers").get("properties", {})
    answers = tuple(
        Field(f"edit.answers.{call_id}", str(call.get("title") or call_id), "lines", required=False)
        for call_id, call in calls.items()
    )
    return (*answers, Field("edit.message", "field_message", "lines", required=False))


# --- from a form ----------------------------------------------------------------------------


def read_decision(pause: Pause, kind: str, form: Form) -> dict[str, Any]:
    """The fields of the signal that a posted form means, without who sends it.

    Raises:
        Problems: what is wrong with each field that cannot be used.
        KeyError: the pause takes no such signal.
    """
    wanted = {made.kind: made for made in forms_of(pause)}[kind]
    note = form.get("note", "").strip()
    given: dict[str, Any] = {"kind": kind, **({"note": note} if note else {})}
    match kind:
        case "approve":
            return given | _approval(wanted.fields, pause, form)
        case "decide":
            return given | {"calls": _verdicts(wanted.choices, form)}
        case "edit":
            return given | _edit(wanted.fields, form)
    return given | read_fields(wanted.fields, form)


def _approval(fields: Sequence[Field], pause: Pause, form: Form) -> dict[str, Any]:
    """Arguments only if they were changed."""
    if pause.action is None or pause.actions:
        return {}
    values = read_fields(fields, form)
    return {} if values == pause.action.arguments else {"arguments": values}


def _verdicts(choices: Sequence[Choice], form: Form) -> dict[str, Any]:
    found: dict[str, Any] = {}
    wrong: dict[str, tuple[str, dict[str, str]]] = {}
    for choice in choices:
        try:
            verdict = _verdict(choice, form)
        except Problems as error:
            wrong |= error.found
        else:
            found |= {} if verdict is None else {choice.action.call_id: verdict}
    if not found and not wrong:
        wrong = {choice.verdict.name: ("error_nothing", {}) for choice in choices}
    if wrong:
        raise Problems(wrong)
    return found


def _verdict(choice: Choice, form: Form) -> dict[str, Any] | None:
    match form.get(choice.verdict.name, ""):
        case "true":
            values = read_fields(choice.arguments, form)
            same = values == choice.action.arguments
            return {"approve": True} if same else {"approve": True, "arguments": values}
        case "false":
            reason = form.get(choice.reason.name, "").strip()
            if not reason:
                raise Problems({choice.reason.name: ("error_missing", {})})
            return {"approve": False, "reason": reason}
    return None


def _edit(fields: Sequence[Field], form: Form) -> dict[str, Any]:
    *calls, message = fields
    answers = {
        field.name.removeprefix("edit.answers."): value
        for field in calls
        if (value := read_field(field, form)) is not UNSET and str(value).strip()
    }
    text = form.get(message.name, "").strip()
    if not answers and not text:
        raise Problems({message.name: ("error_missing", {})})
    return {"answers": answers, "message": text}


def typed_values(form: Mapping[str, str]) -> dict[str, str]:
    """What was typed, to be shown again beside what is wrong with it."""
    return {name: value.replace("\r\n", "\n") for name, value in form.items()}
