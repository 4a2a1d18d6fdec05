"""What happens to the arguments that models send."""

import json
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import AfterValidator, BaseModel

from worker.context import ActionContext
from worker.errors import ArgumentError
from worker.texts import TEXTS
from worker.tools import as_tool


def ping(times: int = 1) -> str:
    return "pong" * times


def weather(city: str) -> str:
    return city


def count(n: int) -> int:
    return n


def refusal(function: Any, arguments: str | None) -> str:
    with pytest.raises(ArgumentError) as refused:
        as_tool(function).parse(arguments)
    return refused.value.text


@pytest.mark.parametrize("arguments", ["", "  ", "\n", None, "{}"])
def test_a1_nothing_counts_as_an_empty_object(arguments: str | None) -> None:
    parsed = as_tool(ping).parse(arguments)
    assert parsed.canonical == "{}"
    assert parsed.values == {}


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [('["Oslo"]', "array"), ('"Oslo"', "string"), ("7", "number"), ("true", "boolean"),
     ("null", "null"), ("1.5", "number")],
)  # fmt: skip
def test_a2_what_is_no_object_is_refused(arguments: str, kind: str) -> None:
    text = refusal(weather, arguments)
    assert "object" in text
    assert kind in text


@pytest.mark.parametrize(
    ("arguments", "position", "excerpt"),
    [
        ('{"city": Oslo"}', 9, "Oslo"),
        ('{"city":"Oslo"}}', 15, "}}"),
        ('{"city":"Oslo"}{"city":"Rome"}', 15, "Rome"),
        ("{'city': 'Oslo'}", 1, "'city'"),
        ('{"city":"Os\nlo"}', 11, "Os"),
        ('{"city":"Os', 8, "Os"),
    ],
)
def test_a3_what_does_not_parse_is_told_with_position_and_excerpt(
    arguments: str, position: int, excerpt: str
) -> None:
    text = refusal(weather, arguments)
    assert f"character {position}" in text
    assert excerpt in text


def test_a3_the_excerpt_is_short() -> None:
    assert len(refusal(weather, '{"city": "' + "x" * 100_000)) < 400


@pytest.mark.parametrize(
    "arguments", ['{"n": NaN}', '{"n": 1e999}', "[" * 100_000, '{"n":' + "9" * 5000 + "}"]
)
def test_numbers_and_depths_that_json_does_not_have_are_refused(arguments: str) -> None:
    assert refusal(count, arguments).startswith("Error: ")


@pytest.mark.parametrize(("sent", "value"), [('"5"', 5), ("1.0", 1), ('"1.0"', 1)])
def test_c9_whole_numbers_in_other_forms_are_taken(sent: str, value: int) -> None:
    parsed = as_tool(count).parse(f'{{"n": {sent}}}')
    assert parsed.values == {"n": value}
    assert type(parsed.values["n"]) is int


@pytest.mark.parametrize("sent", ['"abc"', "1.5", '"12c"'])
def test_c9_anything_else_is_refused_with_name_and_value(sent: str) -> None:
    text = refusal(count, f'{{"n": {sent}}}')
    assert "- n: " in text
    assert f"(got {sent})" in text


def test_c10_an_unknown_name_is_refused_by_name() -> None:
    text = refusal(weather, '{"city": "Oslo", "units": "F"}')
    assert "units: there is no such argument. Arguments: city" in text


class Tenant(ActionContext):
    def __init__(self, tenant: str) -> None:
        self.tenant = tenant


def refund(order: int, ctx: Tenant) -> str:
    return f"{order} of {ctx.tenant}"


def test_c11_a_value_for_the_context_is_ignored_and_reported(run: Any) -> None:
    sent = '{"order": 1, "ctx": {"tenant": "other"}}'
    parsed = as_tool(refund).parse(sent)
    assert parsed.ignored == ("ctx",)
    assert parsed.canonical == '{"order": 1}'
    assert run(refund, sent, Tenant("ours")).content == "1 of ours"


@pytest.mark.parametrize("name", ["context", "Ctx", "ctx ", "tenant"])
def test_c11_other_names_for_the_context_are_refused(name: str) -> None:
    text = refusal(refund, json.dumps({"order": 1, name: {"tenant": "other"}}))
    assert "there is no such argument" in text


def test_c12_null_for_a_parameter_with_a_default_means_the_default(run: Any) -> None:
    def search(limit: int = 10, q: Optional[str] = "all") -> Any:  # noqa: UP045
        return [limit, q]

    assert run(search, '{"limit": null}').value == [10, "all"]
    assert run(search, '{"q": null}').value == [10, None]


def test_c12_null_for_a_required_parameter_is_refused() -> None:
    assert "- n: " in refusal(count, '{"n": null}')


def test_c12_texts_stay_texts(run: Any) -> None:
    def search(q: Optional[str], mode: Literal["none", "all"]) -> Any:  # noqa: UP045
        return [q, mode]

    assert run(search, '{"q": "None", "mode": "none"}').value == ["None", "none"]
    assert run(search, '{"q": "null", "mode": "all"}').value == ["null", "all"]


def test_a_number_is_no_text() -> None:
    assert "- city: " in refusal(weather, '{"city": 5}')


def test_missing_arguments_are_named() -> None:
    assert "- city: required, but missing" in refusal(weather, "{}")


class Inner(BaseModel):
    old: str


def edit(edits: list[Inner]) -> None: ...


def test_problems_inside_values_are_told_with_their_place() -> None:
    assert "- edits.1.old: required, but missing" in refusal(edit, '{"edits": [{"old": ""}, {}]}')


def test_many_problems_are_cut_short() -> None:
    text = refusal(edit, json.dumps({"edits": [{"old": 1}] * 50}))
    assert text.count("\n- ") == 11
    assert "and 40 more" in text


def test_a_long_value_is_shortened_in_the_text() -> None:
    assert len(refusal(count, json.dumps({"n": "x" * 10_000}))) < 400


def test_equal_arguments_have_equal_texts() -> None:
    def pair(a: int, b: str) -> None: ...

    first = as_tool(pair).parse('{"a":1,"b":"ü"}')
    second = as_tool(pair).parse('{ "b": "\\u00fc", "a": 1 }')
    assert first.canonical == second.canonical == '{"a": 1, "b": "ü"}'


def test_lone_surrogates_are_replaced_and_pairs_are_joined() -> None:
    parsed = as_tool(weather).parse('{"city": "\\ud800 \\ud83d\\ude00"}')
    assert parsed.values == {"city": "\ufffd 😀"}
    assert parsed.canonical.encode()


def _odd(value: str) -> str:
    raise KeyError("s3cret")


def test_a_validator_that_fails_is_told_by_its_kind_only() -> None:
    def use(x: Annotated[str, AfterValidator(_odd)]) -> None: ...

    text = refusal(use, '{"x": "a"}')
    assert "KeyError" in text
    assert "s3cret" not in text


@pytest.mark.parametrize(("language", "word"), [("de", "erforderlich"), ("zh", "必填")])
def test_the_text_is_in_the_agents_language(language: str, word: str) -> None:
    with pytest.raises(ArgumentError, match=word):
        as_tool(weather).parse("{}", TEXTS[language])


def test_a_schema_given_by_hand_may_allow_more_names() -> None:
    from worker.tools import build_tool

    def anything(**arguments: Any) -> Any:
        return arguments

    free = build_tool(anything, parameters={"type": "object"})
    assert free.parse('{"x": 1}').values == {"x": 1}
    more = {"type": "object", "properties": {"a": {}}, "additionalProperties": True}
    assert build_tool(anything, parameters=more).parse('{"b": 1}').values == {"b": 1}


def test_approval_rules_see_the_arguments_and_count_as_yes_when_they_fail() -> None:
    from worker.tools import build_tool

    large = build_tool(count, approval=lambda values: values["n"] > 100)
    assert large.needs_approval(large.parse('{"n": 101}'))
    assert not large.needs_approval(large.parse('{"n": 100}'))
    broken = build_tool(count, approval=lambda values: values["m"])
    assert broken.needs_approval(broken.parse('{"n": 1}'))
    assert build_tool(count, approval=True).needs_approval(large.parse('{"n": 1}'))
