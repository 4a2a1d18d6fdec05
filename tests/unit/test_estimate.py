"""Estimating tokens where a provider reports none."""

from __future__ import annotations

from typing import Any

import pytest

from worker.estimate import count_tokens


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("", 0),
        (None, 0),
        ("one", 2),
        ("ten words are thirteen tokens by this rule of thumb", 13),
        ("你好世界", 4),
        ("说 hello 吧", 4),
        ("ひらがな", 4),
        ("한국", 2),
        ("  \n\t ", 0),
    ],
)
def test_words_and_characters(content: Any, tokens: int) -> None:
    assert count_tokens([user(content)]) == tokens


def test_calls_count_by_name_and_arguments() -> None:
    function = {"name": "look", "arguments": '{"city": "Oslo Norway"}'}
    call = {"id": "c", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert count_tokens([message]) == 6  # 4 words times 1.3, rounded up


def test_content_in_parts_counts_like_its_text() -> None:
    parts = [{"type": "text", "text": "你好世界你好世界"}]
    assert count_tokens([user(parts)]) >= 8


def test_several_messages_are_rounded_once() -> None:
    assert count_tokens([user("one")] * 10) == 13
    assert count_tokens([]) == 0
