"""A registered function's schema accepts what pydantic accepts, and the call gets equal values."""

import datetime as dt
import enum
import inspect
import json
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Optional

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from worker.context import CallInfo
from worker.tools import build_tool
from worker.tools.forms import inlined


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Item(BaseModel):
    name: str
    count: int = 0
    inner: Optional["Item"] = None


@dataclass
class Point:
    x: int
    label: str | None = None


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
ITEMS = st.recursive(
    st.builds(Item, name=TEXTS, count=st.integers(-5, 5), inner=st.none()),
    lambda inner: st.builds(Item, name=TEXTS, inner=inner),
    max_leaves=3,
)
SIMPLE: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers(-(2**63), 2**63)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (str, TEXTS),
    (Literal["none", "all", 3], st.sampled_from(["none", "all", 3])),
    (Colour, st.sampled_from(Colour)),
    (dt.date, st.dates()),
    (dt.datetime, st.datetimes(timezones=st.just(dt.UTC))),
    (dt.timedelta, st.timedeltas(dt.timedelta(0), dt.timedelta(days=99))),
    (uuid.UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=3)),
    (Item, ITEMS),
    (Point, st.builds(Point, x=st.integers(-9, 9), label=st.none() | TEXTS)),
]


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 2) -> tuple[Any, Any]:
    """A type and a value of it."""
    shape = draw(st.sampled_from(["simple", "list", "dict", "tuple", "optional"]))
    if depth == 0 or shape == "simple":
        kind, values = draw(st.sampled_from(SIMPLE))
        return kind, draw(values)
    kind, value = draw(typed_values(depth=depth - 1))
    if shape == "list":
        return list.__class_getitem__(kind), [value] * draw(st.integers(0, 2))
    if shape == "dict":
        return dict.__class_getitem__((str, kind)), {draw(TEXTS): value}
    if shape == "tuple":
        other, second = draw(typed_values(depth=0))
        return tuple.__class_getitem__((kind, other)), (value, second)
    return kind | None, draw(st.sampled_from([None, value]))


@st.composite
def functions(draw: st.DrawFn) -> tuple[inspect.Signature, dict[str, Any]]:
    """A signature, some of whose parameters have defaults, and arguments for it."""
    names = draw(st.lists(st.sampled_from(["a", "title", "model_config", "größe"]), unique=True))
    parameters, given_values = [], {}
    for name in names:
        kind, value = draw(typed_values())
        optional = draw(st.booleans())
        default = value if optional else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY,
                                            annotation=kind, default=default))  # fmt: skip
        if not optional or draw(st.booleans()):
            given_values[name] = value
    return inspect.Signature(parameters), given_values


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(functions())
def test_the_schema_accepts_what_pydantic_accepts_and_values_arrive_equal(
    case: tuple[inspect.Signature, dict[str, Any]],
) -> None:
    signature, values = case
    received: dict[str, Any] = {}

    def function(**kwargs: Any) -> None:
        received.update(kwargs)

    function.__signature__ = signature  # type: ignore[attr-defined]
    tool = build_tool(function)
    sent = {
        name: TypeAdapter(signature.parameters[name].annotation).dump_python(value, mode="json")
        for name, value in values.items()
    }
    text = json.dumps(sent)
    jsonschema.validate(json.loads(text), tool.parameters)  # type: ignore[no-untyped-call]
    jsonschema.validate(json.loads(text), inlined(tool.parameters))  # type: ignore[no-untyped-call]
    assert not tool.invoke(tool.parse(text), None, CallInfo("j", "c", 1, 1, "k")).error
    for name, value in values.items():
        assert received[name] == value
        assert type(received[name]) is type(value)
    for name, parameter in signature.parameters.items():
        if name not in values and name in received:
            assert received[name] == parameter.default
    strict = tool.schema(strict=True)["function"]
    if strict.get("strict"):
        complete = {name: sent.get(name) for name in signature.parameters}
        jsonschema.validate(complete, strict["parameters"])  # type: ignore[no-untyped-call]
