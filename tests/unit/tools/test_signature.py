"""What is read from functions, and what is refused at registration."""

import functools
from collections.abc import Callable
from typing import Annotated, Any, Optional

import pytest
from pydantic import BaseModel, Field

from tests.unit.tools import annotations_as_text
from worker.context import ActionContext
from worker.errors import ToolRegistrationError
from worker.tools import as_tool, build_tool, tool


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    found: dict[str, Any] = as_tool(function).parameters["properties"]
    return found


def test_c1_annotations_as_text_are_resolved(run: Any) -> None:
    built = as_tool(annotations_as_text.forecast)
    assert built.parameters["properties"]["unit"] == {
        "default": "C", "enum": ["C", "F"], "type": "string",
    }  # fmt: skip
    assert built.parameters["required"] == ["place"]
    seen = run(built, '{"place": {"city": "Oslo"}, "days": 3}')
    assert seen.content == "Oslo 3 C"


@pytest.mark.parametrize(
    ("function", "parameter"),
    [
        (annotations_as_text.only_while_checking, "amount"),
        (annotations_as_text.local_class(), "item"),
    ],
)
def test_c1_types_that_cannot_be_found_are_refused(
    function: Callable[..., Any], parameter: str
) -> None:
    with pytest.raises(ToolRegistrationError) as refused:
        as_tool(function)
    assert function.__name__ in str(refused.value)
    assert repr(parameter) in str(refused.value)


def test_c4_parameters_may_be_called_like_attributes_of_a_model(run: Any) -> None:
    def odd(
        model_config: str, model_dump: int, model_extra: str, model_fields_set: str, copy: str
    ) -> list[Any]:
        return [model_config, model_dump, model_extra, model_fields_set, copy]

    seen = run(
        odd,
        '{"model_config":"a","model_dump":2,"model_extra":"c","model_fields_set":"d","copy":"e"}',
    )
    assert seen.value == ["a", 2, "c", "d", "e"]


def call_api(url: str, key: str, retries: int = 2) -> str:
    """Calls the API."""
    return f"{url} {len(key)} {retries}"


def test_c6_bound_arguments_are_hidden_and_their_values_never_shown(run: Any) -> None:
    bound = functools.partial(call_api, key="sk-1")
    built = build_tool(bound)
    assert built.name == "call_api"
    assert built.description == "Calls the API."
    assert set(built.parameters["properties"]) == {"url", "retries"}
    assert "sk-1" not in str(built.schema())
    assert run(built, '{"url": "u"}').content == "u 4 2"


def test_c6_the_model_cannot_replace_a_bound_argument(run: Any) -> None:
    built = build_tool(functools.partial(call_api, key="sk-1"), name="other")
    arguments = built.parse('{"url": "u", "key": "mine!!"}')
    assert arguments.ignored == ("key",)
    assert run(built, '{"url": "u", "key": "mine!!"}').content == "u 4 2"


@pytest.mark.parametrize("name", ["a[b]", "a.b", "a b", "größe", "x" * 65, ""])
def test_c13_names_that_providers_refuse_are_refused(name: str) -> None:
    with pytest.raises(ToolRegistrationError, match="a-zA-Z0-9_-"):
        build_tool(call_api, name=name)


def test_c13_a_name_of_64_characters_is_fine() -> None:
    assert build_tool(call_api, name="x" * 64).name == "x" * 64


def stars(*rows: int) -> None: ...
def options(**opts: str) -> None: ...
def positional(a: int, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter", "advice"),
    [
        (stars, "*rows", "list"),
        (options, "**opts", "dict"),
        (positional, "a", "'/'"),
    ],
)
def test_c15_parameters_without_names_are_refused_with_advice(
    function: Callable[..., Any], parameter: str, advice: str
) -> None:
    with pytest.raises(ToolRegistrationError) as refused:
        as_tool(function)
    assert repr(parameter) in str(refused.value)
    assert advice in str(refused.value)


def test_a_parameter_without_annotation_is_a_text_or_has_the_type_of_its_default() -> None:
    def read_doc(path, start=1, exact=True, share=0.5):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return path, start, exact, share

    kinds = {name: shown["type"] for name, shown in properties(read_doc).items()}
    assert kinds == {"path": "string", "start": "integer", "exact": "boolean", "share": "number"}


class Shop:
    """A shop."""

    def __init__(self, name: str) -> None:
        self.name = name

    @tool(effects="safe", tags=("orders",))
    def find_order(self, order_id: str) -> str:
        """Finds an order."""
        return f"{self.name}: {order_id}"

    @classmethod
    @tool
    def opening(cls, day: str) -> str:
        """When it is open."""
        return f"{cls.__name__} {day}"

    @staticmethod
    @tool
    def currency(country: str) -> str:
        """What one pays with."""
        return country

    def __call__(self, question: str) -> str:
        """Asks the shop."""
        return f"{self.name}? {question}"


def test_bound_methods_are_tools_with_the_options_of_their_decorator(run: Any) -> None:
    built = as_tool(Shop("Nord").find_order)
    assert (built.name, built.effects, built.tags) == ("find_order", "safe", ("orders",))
    assert list(built.parameters["properties"]) == ["order_id"]
    assert run(built, '{"order_id": "7"}').content == "Nord: 7"


def test_class_and_static_methods_are_tools(run: Any) -> None:
    assert run(Shop.opening, '{"day": "Monday"}').content == "Shop Monday"
    assert run(Shop.currency, '{"country": "no"}').content == "no"


def test_objects_with_call_are_tools(run: Any) -> None:
    built = build_tool(Shop("Nord"), name="ask")
    assert built.description == "Asks the shop."
    assert run(built, '{"question": "open?"}').content == "Nord? open?"
    assert as_tool(Shop("Nord")).name == "Shop"


def test_the_decorator_returns_the_function_unchanged() -> None:
    def add(a: float, b: float) -> float:
        return a + b

    assert tool(add) is add
    assert add(1, 2) == 3


def test_the_decorator_takes_the_description_first() -> None:
    @tool("列出所有文件路径。")
    def list_docs() -> str:
        return ""

    assert as_tool(list_docs).description == "列出所有文件路径。"


def test_a_wrapper_around_a_tool_is_what_runs(run: Any) -> None:
    @tool(effects="once")
    def inner(x: int) -> int:
        """Doubles."""
        return x * 2

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> int:
        return inner(*args, **kwargs) + 1

    built = as_tool(outer)
    assert (built.name, built.effects, built.description) == ("inner", "once", "Doubles.")
    assert run(built, '{"x": 4}').content == "9"


class Ctx(ActionContext):
    """A context."""


def one(x: int, ctx: Ctx) -> None: ...
def optional(x: int, ctx: Optional[Ctx] = None) -> None: ...  # noqa: UP045
def annotated(x: int, ctx: Annotated[Ctx | None, "hidden"] = None) -> None: ...


@pytest.mark.parametrize("function", [one, optional, annotated])
def test_rule_10_a_context_is_in_no_schema(function: Callable[..., Any]) -> None:
    built = as_tool(function)
    assert list(built.parameters["properties"]) == ["x"]
    assert built.context_type is Ctx
    assert "ctx" not in str(built.schema())


def test_rule_10_two_contexts_are_refused() -> None:
    def two(a: Ctx, b: ActionContext) -> None: ...

    with pytest.raises(ToolRegistrationError, match="'a', 'b'"):
        as_tool(two)


def test_rule_10_a_context_inside_another_type_is_refused() -> None:
    class Holder(BaseModel):
        model_config = {"arbitrary_types_allowed": True}
        ctx: Ctx

    def listed(items: list[Ctx]) -> None: ...
    def held(holder: Holder) -> None: ...

    for function, parameter in ((listed, "items"), (held, "holder")):
        with pytest.raises(ToolRegistrationError, match=f"parameter '{parameter}'"):
            as_tool(function)


def test_descriptions_come_from_fields_before_docstrings() -> None:
    def search(
        word: Annotated[str, Field(description="from the field")],
        count: int = Field(5, ge=1, description="how many"),
        other: str = "",
    ) -> None:
        """Searches.

        Args:
            word: from the docstring
            other: only here
        """

    shown = properties(search)
    assert shown["word"]["description"] == "from the field"
    assert shown["count"] == {
        "default": 5, "minimum": 1, "type": "integer", "description": "how many",
    }  # fmt: skip
    assert shown["other"]["description"] == "only here"


def test_defaults_in_fields_are_passed_to_the_function(run: Any) -> None:
    def search(
        count: int = Field(5, ge=1),
        tags: Annotated[list[str], Field(default_factory=lambda: ["a"])] = Field(),  # noqa: B008
        size: Annotated[int, Field(default=3)] = 3,
    ) -> Any:
        return [count, tags, size]

    assert as_tool(search).parameters.get("required", []) == ["tags"]
    assert run(search, '{"tags": ["b"]}').value == [5, ["b"], 3]


def test_a_default_factory_is_called_for_each_call(run: Any) -> None:
    def note(tags: Annotated[list[str], Field(default_factory=lambda: ["a"])]) -> Any:
        tags.append("b")
        return tags

    assert as_tool(note).parameters.get("required", []) == []
    assert run(note).value == ["a", "b"]
    assert run(note).value == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"effects": "maybe"}, "effects"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"max_calls": 0}, "max_calls"),
        ({"max_observation": 1.5}, "max_observation"),
        ({"cut": "middle"}, "cut"),
        ({"approval": "yes"}, "approval"),
        ({"tags": "one"}, "tags"),
        ({"parameters": {"type": "array"}}, "object"),
    ],
)
def test_unfit_options_are_refused_by_name(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ToolRegistrationError, match=what) as refused:
        build_tool(call_api, **options)
    assert "call_api" in str(refused.value)


def test_generators_are_refused() -> None:
    def rows() -> Any:
        yield 1

    async def rows_async() -> Any:
        yield 1

    for function in (rows, rows_async):
        with pytest.raises(ToolRegistrationError, match="return a list"):
            as_tool(function)


def test_what_cannot_be_decorated_is_sent_to_build_tool() -> None:
    with pytest.raises(ToolRegistrationError, match="build_tool"):
        tool(len)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ToolRegistrationError, match="neither a function nor a Tool"):
        as_tool("search")  # type: ignore[arg-type]
    with pytest.raises(ToolRegistrationError, match="'dict'"):
        as_tool(dict)
