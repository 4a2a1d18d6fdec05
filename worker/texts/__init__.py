"""Every text that the service writes for a model, in English, German and Chinese.

A text says what is wrong and what to do next. To change some of them, subclass ``Texts``,
``GermanTexts`` or ``ChineseTexts``, and give an instance to the agent.
"""

from __future__ import annotations

from worker.texts.chinese import ChineseTexts
from worker.texts.english import ENGLISH, Texts
from worker.texts.german import GermanTexts

__all__ = ["ENGLISH", "TEXTS", "ChineseTexts", "GermanTexts", "Texts", "texts_for"]

TEXTS: dict[str, Texts] = {"en": ENGLISH, "de": GermanTexts(), "zh": ChineseTexts()}


def texts_for(language: str) -> Texts:
    """The catalog of a language.

    Raises:
        ValueError: there is none; names those there are.
    """
    try:
        return TEXTS[language]
    except KeyError:
        raise ValueError(f"no texts in {language!r}; there are {', '.join(TEXTS)}") from None
