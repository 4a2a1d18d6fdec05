"""Estimating tokens where a provider reports none.

Words times 1.3 is the usual rule of thumb for English and German. A script without blanks has
no words in that sense, so each of its characters counts as one token.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

TOKENS_PER_WORD = 1.3

_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def count_tokens(messages: Iterable[Mapping[str, Any]]) -> int:
    """Estimated tokens of the texts and tool calls in ``messages``, rounded up."""
    words = ideographs = 0
    for message in messages:
        text = _text_of(message)
        found = len(_IDEOGRAPHS.findall(text))
        ideographs += found
        words += len((_IDEOGRAPHS.sub(" ", text) if found else text).split())
    return math.ceil(words * TOKENS_PER_WORD) + ideographs


def _written(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False) if content else ""


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    parts = [content if isinstance(content, str) else _written(content)]
    for call in message.get("tool_calls") or ():
        parts.append(call["function"]["name"])
        parts.append(call["function"]["arguments"])
    return " ".join(parts)
