"""The catalogs: complete in every language, and in the words that users know."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from worker.texts import ENGLISH, TEXTS, Texts, texts_for

METHODS = [name for name, _ in inspect.getmembers(Texts, inspect.isfunction) if name[0] != "_"]
VALUES: dict[str, Any] = {
    "names": ["a", "b"], "available": ["list_docs", "grep_docs"], "allowed": ["a"],
    "problems": ["n: wrong"], "position": 3, "limit": 5, "seconds": 2.5, "count": 4, "total": 9,
    "times": 3, "dropped": 6,
}  # fmt: skip


def said(method: Callable[..., str]) -> str:
    names = list(inspect.signature(method).parameters)
    return method(**{name: VALUES.get(name, f"<{name}>") for name in names})


@pytest.mark.parametrize("language", ["de", "zh"])
@pytest.mark.parametrize("name", METHODS)
def test_every_text_is_translated_and_says_as_much(language: str, name: str) -> None:
    catalog = TEXTS[language]
    text = said(getattr(catalog, name))
    parameters = inspect.signature(getattr(ENGLISH, name)).parameters
    for parameter in parameters:
        value = VALUES.get(parameter, f"<{parameter}>")
        for part in value if isinstance(value, list) else [value]:
            assert str(part) in text
    assert name in type(catalog).__dict__
    if not all(parameter in ("names", "name", "reason", "shown") for parameter in parameters):
        assert text != said(getattr(ENGLISH, name))


def test_the_texts_of_the_lessons() -> None:
    assert TEXTS["zh"].unknown_tool("search_web", []).startswith("错误：没有叫 search_web 的工具")
    assert TEXTS["zh"].tool_error("TypeError", "x").startswith("错误：TypeError: x")
    assert TEXTS["zh"].truncated(12) == "……（内容太长，已截断，共 12 字符）"
    assert TEXTS["de"].unknown_tool("X", []).startswith("kein Tool X")
    assert "content too long, truncated" in ENGLISH.truncated(12)


def test_a5_an_unknown_tool_is_answered_with_the_available_ones() -> None:
    text = ENGLISH.unknown_tool("search_webz", ["search_web", "get_weather"])
    assert "search_webz" in text
    assert "search_web, get_weather" in text
    assert ENGLISH.unknown_tool("x", []).endswith("Available tools: none.")


def test_an_unknown_language_is_refused_with_those_there_are() -> None:
    assert texts_for("zh") is TEXTS["zh"]
    with pytest.raises(ValueError, match="en, de, zh"):
        texts_for("fr")
