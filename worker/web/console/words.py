"""Speaking to visitors: every sentence in their language, numbers and times as they write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from worker.rendering.texts import duration as short_duration
from worker.web.console.job_sentences import SENTENCES as JOB_SENTENCES
from worker.web.console.sentences import SENTENCES

Language = Literal["en", "de"]
LANGUAGES: tuple[Language, ...] = ("en", "de")
NAMES: dict[Language, str] = {"en": "English", "de": "Deutsch"}

WORDS: dict[str, tuple[str, str]] = {**SENTENCES, **JOB_SENTENCES}
"""Each sentence by its name: English, German."""

Say = Callable[..., str]


def speak(language: Language) -> Say:
    """A function that says a sentence by its name; its fields are keyword arguments."""
    index = LANGUAGES.index(language)

    def say(name: str, /, **fields: object) -> str:
        return WORDS[name][index].format(**fields)

    return say


def status_word(say: Say, status: str) -> str:
    """A job's status."""
    return say(f"status_{status}")


def known(name: str) -> bool:
    """Whether there is a sentence of this name."""
    return name in WORDS


def number(value: float, language: Language) -> str:
    """A number with the separators of the language: ``1,234.5`` or ``1.234,5``."""
    text = f"{value:,.4f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"
    return text.translate(str.maketrans(",.", ".,")) if language == "de" else text


def span(ms: float, language: Language) -> str:
    """A span of time: ``3.4 s``, ``2 d 4 h``; in German ``3,4 s`` and ``2 T 4 Std``."""
    text = short_duration(max(0, ms))
    if language == "en":
        return text
    units = {"d": "T", "h": "Std", "min": "Min", "s": "s", "ms": "ms"}
    return " ".join(units.get(part, part.replace(".", ",")) for part in text.split(" "))


def chosen(accept_language: str, cookie: str | None) -> Language:
    """The language of a visitor: the one chosen, else the first that the browser asks for."""
    for language in LANGUAGES:
        if cookie == language:
            return language
    for wish in _wishes(accept_language):
        for language in LANGUAGES:
            if wish.partition("-")[0] == language:
                return language
    return "en"


def _wishes(header: str) -> list[str]:
    """The languages of an ``Accept-Language`` header, the most wanted first."""
    weighed: list[tuple[float, str]] = []
    for part in header[:500].split(","):
        name, _, weight = part.partition(";q=")
        try:
            weighed.append((-float(weight or 1), name.strip().lower()))
        except ValueError:
            continue
    return [name for weight, name in sorted(weighed, key=lambda item: item[0]) if weight < 0]
