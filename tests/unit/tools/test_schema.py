"""The JSON schemas that models are sent: faithful, strict where possible, without references."""

import datetime as dt
import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from worker.errors import ToolRegistrationError
from worker.tools import as_tool, build_tool
from worker.tools.forms import inlined, strict_form

SENTINEL = object()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class TextEdit(BaseModel):
    old: str
    new: str


@dataclass
class Line:
    number: int
    marks: list[str] = field(default_factory=list)


class Entry(TypedDict):
    key: str
    value: int


class Node(BaseModel):
    name: str
    children: list["Node"] = []


class Address(BaseModel):
    street: str


class Order(BaseModel):
    address: Address
    billing: Address | None


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    found = as_tool(function).parameters
    jsonschema.Draft202012Validator.check_schema(found)
    return found


# C2


def plain(city: str, days: int) -> None: ...
def with_default(city: str, days: int = 3, note: str | None = None) -> None: ...
def nested(edits: list[TextEdit], colour: Colour) -> None: ...
def free_form(data: dict[str, Any]) -> None: ...
def anything(data: Any) -> None: ...
def inner_default(root: Node) -> None: ...
def pair(box: tuple[int, str]) -> None: ...
def where(path: Path) -> None: ...


def satisfies_strict_mode(schema: dict[str, Any]) -> bool:
    """What OpenAI documents of strict mode, written anew: closed objects, all required."""
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required", [])) != set(schema.get("properties", {})):
            return False
    if "default" in schema:
        return False
    parts = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    parts += schema.get("anyOf", [])
    parts += [schema["items"]] if "items" in schema else []
    return all(satisfies_strict_mode(part) for part in parts)


@pytest.mark.parametrize("function", [plain, with_default, nested])
def test_c2_strict_is_sent_where_the_schema_satisfies_it(function: Callable[..., Any]) -> None:
    sent = as_tool(function).schema(strict=True)["function"]
    assert sent["strict"] is True
    assert satisfies_strict_mode(sent["parameters"])


@pytest.mark.parametrize("function", [free_form, anything, inner_default, pair, where])
def test_c2_other_schemas_are_sent_without_strict(function: Callable[..., Any]) -> None:
    built = as_tool(function)
    assert built.schema(strict=True) == built.schema()
    assert "strict" not in built.schema()["function"]


def test_c2_optional_parameters_become_nullable_and_null_means_the_default(run: Any) -> None:
    shown = as_tool(with_default).schema(strict=True)["function"]["parameters"]
    assert shown["properties"]["days"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert shown["required"] == ["city", "days", "note"]

    def days_of(city: str, days: int = 3) -> int:
        return days

    assert run(days_of, '{"city": "Oslo", "days": null}').content == "3"


def test_c2_not_strict_can_be_said_explicitly() -> None:
    assert as_tool(plain).schema(strict=False)["function"]["strict"] is False


def test_c2_a_reference_with_a_description_is_written_out() -> None:
    def use(edit: Annotated[TextEdit, Field(description="what to change")]) -> None: ...

    shown = strict_form(parameters(use))
    assert shown is not None
    assert "$ref" not in shown["properties"]["edit"]
    assert shown["properties"]["edit"]["description"] == "what to change"
    assert satisfies_strict_mode(shown)


def test_the_plain_schema_is_never_changed() -> None:
    built = as_tool(nested)
    before = str(built.parameters)
    built.schema(strict=True, inline=True)["function"]["parameters"].clear()
    built.schema()["function"]["parameters"].clear()
    assert str(built.parameters) == before


# C3


def crop(box: tuple[int, int, int, int]) -> str:
    return str(sum(box))


def test_c3_a_tuple_is_an_array_with_items_and_bounds() -> None:
    assert parameters(crop)["properties"]["box"] == {
        "type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4,
    }  # fmt: skip


@pytest.mark.parametrize("box", ["[1, 2, 3]", '[1, 2, 3, "x"]', "[1, 2, 3, 4, 5]", '"1,2,3,4"'])
def test_c3_other_lengths_and_types_are_rejected(box: str) -> None:
    built = as_tool(crop)
    with pytest.raises(Exception, match="box"):
        built.parse(f'{{"box": {box}}}')


def test_c3_mixed_tuples_have_items_too() -> None:
    shown = parameters(pair)["properties"]["box"]
    assert [place["type"] for place in shown["prefixItems"]] == ["integer", "string"]
    assert shown["items"] == {"anyOf": shown["prefixItems"]}


# C5


def test_c5_values_are_instances_at_every_depth(run: Any) -> None:
    def edit(
        edits: list[TextEdit],
        lines: dict[str, Line],
        colour: Colour,
        when: dt.datetime,
        entry: Entry,
    ) -> str:
        return (
            f"{edits[0].old} {lines['a'].number} {lines['a'].marks} {colour.name} "
            f"{when.year} {entry['value']}"
        )

    seen = run(
        edit,
        '{"edits": [{"old": "x", "new": "y"}], "lines": {"a": {"number": 7}}, "colour": "red",'
        ' "when": "2020-01-02T03:04:05", "entry": {"key": "k", "value": 9}}',
    )
    assert seen.content == "x 7 [] RED 2020 9"


# C14


def test_c14_defaults_make_parameters_optional_and_arrive_exactly(run: Any) -> None:
    seen: list[Any] = []
    since_default = dt.datetime(2020, 1, 1)  # noqa: DTZ001

    def report(units: str = "C", since: dt.datetime = since_default, opt: object = SENTINEL) -> str:
        seen.extend([units, since, opt])
        return "ok"

    shown = parameters(report)
    assert "required" not in shown
    assert shown["properties"]["units"]["default"] == "C"
    assert shown["properties"]["since"]["default"] == "2020-01-01T00:00:00"
    assert shown["properties"]["opt"] == {}
    assert run(report).content == "ok"
    assert seen[0] == "C"
    assert seen[1] is since_default
    assert seen[2] is SENTINEL


def test_a_default_of_none_is_not_shown_for_a_type_without_null() -> None:
    def old_style(limit: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    assert parameters(old_style)["properties"]["limit"] == {"type": "integer"}


def test_rule_10_a_default_that_looks_like_a_secret_is_not_shown() -> None:
    def call(url: str, api_key: str = "abc", note: str = "sk-abcdefghijklmnop1234") -> None: ...

    assert "abc" not in str(as_tool(call).schema())


# C16


def order(order: Order) -> str:
    return order.address.street


def tree(root: Node) -> int:
    return len(root.children)


def references(schema: Any) -> bool:
    if isinstance(schema, dict):
        return "$ref" in schema or "$defs" in schema or any(map(references, schema.values()))
    return isinstance(schema, list) and any(map(references, schema))


@pytest.mark.parametrize("function", [order, tree, nested])
def test_c16_references_are_inlined_on_request(function: Callable[..., Any]) -> None:
    built = as_tool(function)
    assert references(built.schema())
    shown = built.schema(inline=True)["function"]["parameters"]
    assert not references(shown)
    jsonschema.Draft202012Validator.check_schema(shown)


def test_c16_inlined_schemas_describe_the_same() -> None:
    shown = as_tool(order).schema(inline=True)["function"]["parameters"]
    street = shown["properties"]["order"]["properties"]["address"]["properties"]["street"]
    assert street == {"type": "string"}


def test_c16_a_recursive_type_terminates_and_still_accepts_deep_values(run: Any) -> None:
    shown = as_tool(tree).schema(inline=True)["function"]["parameters"]
    deep = {"root": {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}}
    jsonschema.validate(deep, shown)  # type: ignore[no-untyped-call]
    assert run(tree, '{"root": {"name": "a", "children": [{"name": "b"}]}}').content == "1"


def test_c16_many_types_that_contain_each_other_terminate() -> None:
    names = [f"T{n}" for n in range(12)]
    every = {name: {"anyOf": [{"$ref": f"#/$defs/{n}"} for n in names]} for name in names}
    definition = {"type": "object", "properties": every}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/T0"}},
              "$defs": dict.fromkeys(names, definition)}  # fmt: skip
    assert len(str(inlined(schema))) < 2_000_000


def test_c16_models_of_one_name_do_not_clash(run: Any) -> None:
    def make(kind: type) -> type[BaseModel]:
        class Item(BaseModel):
            value: kind  # type: ignore[valid-type]

        return Item

    first, second = make(int), make(str)
    second.__module__ = "elsewhere"

    def both(a: first, b: second) -> str:  # type: ignore[valid-type]
        return f"{a.value!r} {b.value!r}"  # type: ignore[attr-defined]

    shown = as_tool(both).schema(inline=True)["function"]["parameters"]["properties"]
    assert shown["a"]["properties"]["value"]["type"] == "integer"
    assert shown["b"]["properties"]["value"]["type"] == "string"
    assert run(both, '{"a": {"value": 1}, "b": {"value": "1"}}').content == "1 '1'"


# No faithful schema


def call_back(then: Callable[[int], int]) -> None: ...
def maybe_call(then: int | Callable[[int], int]) -> None: ...
def file(handle: TextIO) -> None: ...
def lazily(rows: Iterable[int]) -> None: ...
def a_class(kind: type[int]) -> None: ...
def odd_keys(table: dict[tuple[int, int], str]) -> None: ...
def an_object(thing: Literal["a"] | Path | range) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter"),
    [
        (call_back, "then"),
        (maybe_call, "then"),
        (file, "handle"),
        (lazily, "rows"),
        (a_class, "kind"),
        (odd_keys, "table"),
        (an_object, "thing"),
    ],
)
def test_types_without_a_faithful_schema_are_refused(
    function: Callable[..., Any], parameter: str
) -> None:
    with pytest.raises(ToolRegistrationError) as refused:
        as_tool(function)
    assert f"tool {function.__name__!r}, parameter {parameter!r}" in str(refused.value)


def test_a_model_that_allows_anything_is_not_made_strict() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    def use(item: Open) -> None: ...

    assert "strict" not in as_tool(use).schema(strict=True)["function"]


def test_titles_are_left_out_and_a_parameter_called_title_is_kept() -> None:
    def use(title: str, node: Node) -> None: ...

    shown = parameters(use)
    assert "title" in shown["properties"]
    assert '"title":' not in str(shown["$defs"]).replace("'", '"')


def test_a_given_schema_is_used_as_it_is(run: Any) -> None:
    given = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}

    def search(**arguments: Any) -> Any:
        return arguments

    built = build_tool(search, parameters=given)
    assert built.parameters == given
    assert run(built, '{"q": "x"}').value == {"q": "x"}
    with pytest.raises(Exception, match="q: required"):
        built.parse("{}")
    with pytest.raises(Exception, match="other: there is no such argument"):
        built.parse('{"q": "x", "other": 1}')
