"""What a model reads of the values that tools return."""

import datetime as dt
import enum
import uuid
from collections import deque
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from worker.redact import MARK
from worker.texts import ENGLISH
from worker.tools import build_tool
from worker.tools.results import Unwritable, to_json, write


class Level(enum.IntEnum):
    HIGH = 3


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    when: dt.date


class Person(BaseModel):
    name: str
    born: dt.date


class Pair(NamedTuple):
    left: int
    right: str


DAY = dt.date(2026, 1, 2)


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ("text", "text"),
        (210.0, "210"),
        (0.5, "0.5"),
        (1e300, "1e+300"),
        (float("inf"), "inf"),
        (True, "true"),
        (7, "7"),
        (dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC), "2026-01-02T03:04:00+00:00"),
        (DAY, "2026-01-02"),
        (dt.time(3, 4), "03:04:00"),
        (dt.timedelta(hours=1), "PT1H"),
        (Decimal("1.10"), "1.10"),
        (Fraction(1, 3), "1/3"),
        ({3, 1, 2}, "[1, 2, 3]"),
        (frozenset({"b", 1}), '["b", 1]'),
        (Person(name="Åsa", born=DAY), '{"name": "Åsa", "born": "2026-01-02"}'),
        (Point(1, DAY), '{"x": 1, "when": "2026-01-02"}'),
        (Pair(1, "r"), '{"left": 1, "right": "r"}'),
        (Colour.RED, "red"),
        (Level.HIGH, "3"),
        (Path("a") / "b", "a/b"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ([Point(1, DAY)], '[{"x": 1, "when": "2026-01-02"}]'),
        (deque([1]), "[1]"),
        (range(3), "[0, 1, 2]"),
        ({1: "a", Colour.RED: None, DAY: 2.0}, '{"1": "a", "red": null, "2026-01-02": 2.0}'),
    ],
)
def test_d4_common_types_have_a_written_form(result: Any, content: str) -> None:
    assert write(result, ENGLISH).content == content


@pytest.mark.parametrize(
    ("result", "named"),
    [
        ({(1, 2): "x"}, "dict with keys of type tuple"),
        (open, "builtin_function_or_method"),
        (object(), "object"),
        ((n for n in range(2)), "generator"),
        ({"a": [object()]}, "object"),
        ({1: "a", "1": "b"}, "two keys"),
        (int, "type"),
    ],
)
def test_d4_other_types_are_an_error_that_names_them(run: Any, result: Any, named: str) -> None:
    seen = run(build_tool(lambda: result, name="odd"))
    assert seen.error
    assert named in seen.content
    assert " at 0x" not in seen.content


def test_d4_an_open_file_is_an_error(run: Any, tmp_path: Path) -> None:
    with (tmp_path / "f").open("w") as file:
        seen = run(build_tool(lambda: file, name="odd"))
    assert "_io.TextIOWrapper" in seen.content


def test_d4_a_value_that_contains_itself_is_an_error(run: Any) -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "nested too deeply" in run(build_tool(lambda: loop, name="odd")).content


@pytest.mark.parametrize("result", [b"\x89PNG\r\n", bytearray(b"x"), memoryview(b"x")])
def test_b6_bytes_are_refused(run: Any, result: Any) -> None:
    seen = run(build_tool(lambda: result, name="picture"))
    assert seen.error
    assert type(result).__name__ in seen.content


PICTURE = "data:image/png;base64," + "iVBORw0KGgo" * 10


@pytest.mark.parametrize(
    "result",
    [
        PICTURE,
        [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PICTURE}}],
        {"type": "image", "data": "iVBORw0KGgo", "mimeType": "image/png"},
        {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo"}},
        {"type": "input_audio", "input_audio": {"data": "UklGR", "format": "wav"}},
    ],
)
def test_b6_pictures_and_sounds_are_refused_and_not_pasted(run: Any, result: Any) -> None:
    seen = run(build_tool(lambda: result, name="picture"))
    assert seen.error
    assert "iVBORw0KGgo" not in seen.content


def test_b6_a_listing_of_files_and_links_to_pictures_are_fine(run: Any) -> None:
    listing = [{"type": "file", "file": "a.txt"}, {"type": "image", "url": "https://x/y.png"}]
    assert run(build_tool(lambda: listing, name="listing")).value == listing


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (None, "(done, no result)"),
        ("", "(empty text)"),
        (" \n", "(empty text)"),
        ([], "[] (empty)"),
        (set(), "[] (empty)"),
        ({}, "{} (empty)"),
    ],
)
def test_d5_nothing_has_a_text(run: Any, result: Any, content: str) -> None:
    seen = run(build_tool(lambda: result, name="nothing"))
    assert (seen.content, seen.error) == (content, False)


def test_a16_nul_bytes_are_replaced(run: Any) -> None:
    seen = run(build_tool(lambda: "a\x00b", name="log"))
    assert seen.content == "a␀b"
    nested = run(build_tool(lambda: {"k\x00": ["\x00"]}, name="log"))
    assert "\x00" not in nested.content
    assert "\\u0000" not in nested.content
    assert nested.value == {"k␀": ["␀"]}


def test_lone_surrogates_are_replaced(run: Any) -> None:
    seen = run(build_tool(lambda: "a\ud800b", name="log"))
    assert seen.content == "a\ufffdb"
    assert seen.content.encode()


def test_rule_7_a_long_result_is_cut_with_its_full_length(run: Any) -> None:
    text = "".join(str(n % 10) for n in range(5000))
    seen = run(build_tool(lambda: text, name="long"))
    assert (
        seen.content
        == text[:3000] + "\n... (content too long, truncated; 5000 characters in total)"
    )
    assert seen.full_length == 5000
    assert seen.value == text


def test_rule_7_a_result_of_exactly_the_limit_is_whole(run: Any) -> None:
    seen = run(build_tool(lambda: "x" * 3000, name="long"))
    assert (len(seen.content), seen.full_length) == (3000, None)


def test_rule_7_the_limit_is_the_tools_or_the_agents(run: Any) -> None:
    def long() -> str:
        return "x" * 100

    assert run(build_tool(long, max_observation=10)).content.startswith("x" * 10 + "\n")
    assert run(long, max_observation=20).content.startswith("x" * 20 + "\n")
    assert (
        run(build_tool(long, max_observation=10), max_observation=20).content[:11]
        == "x" * 10 + "\n"
    )


def test_d6_head_and_tail_of_five_megabytes(run: Any) -> None:
    text = "a" * 2_500_000 + "ß" * 2_499_990 + "end of it."
    seen = run(build_tool(lambda: text, name="long", cut="head_tail"))
    head, notice, tail = seen.content.split("\n")
    assert (head, tail) == (text[:2000], text[-1000:])
    assert "5000000" in notice
    assert seen.full_length == 5_000_000


def test_d6_the_cut_is_between_characters(run: Any) -> None:
    seen = run(build_tool(lambda: "😀" * 20, name="long", max_observation=7))
    assert seen.content.startswith("😀" * 7 + "\n")


def test_d6_a_secret_is_not_left_half_visible_at_the_cut(run: Any) -> None:
    secret = "sk-abcdefghijklmnop1234567890"
    for place in range(80, 101):
        text = "x" * place + " " + secret + " " + "y" * 200
        for cut in ("head", "head_tail"):
            tool = build_tool(lambda text=text: text, name="t", max_observation=100, cut=cut)
            assert "sk-" not in run(tool).content.replace(MARK, "")


def test_the_language_of_the_notice(run: Any) -> None:
    from worker.texts import TEXTS

    seen = run(build_tool(lambda: "字" * 4000, name="long"), texts=TEXTS["zh"])
    assert seen.content == "字" * 3000 + "\n……（内容太长，已截断，共 4000 字符）"


def test_results_are_copies() -> None:
    kept = {"a": [1]}
    written = to_json(kept)
    written["a"].append(2)
    assert kept == {"a": [1]}


def test_a_model_that_cannot_be_written_is_named() -> None:
    class Odd(BaseModel):
        model_config = {"arbitrary_types_allowed": True}
        thing: object

    with pytest.raises(Unwritable, match="Odd"):
        to_json(Odd(thing=object()))
