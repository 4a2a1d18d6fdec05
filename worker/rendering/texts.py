"""The small words of a trace. Pure functions of values."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from api_client.contract import JobView, Pause, Usage

HAND_TO_HUMAN = "hand_to_human"
MAX_LINES = 6
MAX_CHARACTERS = 600

# Marks that reorder or hide the text around them: an approver must see what is really there.
_INVISIBLE = frozenset("\u061c\u200b\u200e\u200f\u2028\u2029\ufeff") | frozenset(
    chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
)
_UNITS = (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1))
_SIGNALS = {
    "answer": 'answer {job} "TEXT"',
    "approve": "approve {job}",
    "reject": 'reject {job} "REASON"',
    "extend": "extend {job} AMOUNT",
    "finish": 'finish {job} "ANSWER"',
    "retry": "retry {job}",
    "happened": 'signal {job} happened "RESULT"',
    "did_not_happen": "signal {job} did_not_happen",
    "decide": 'signal {job} decide --as-json \'{{"CALL": {{"approve": true}}}}\'',
    "edit": 'edit {job} "MESSAGE"',
    "fail": 'fail {job} "REASON"',
    "cancel": "cancel {job}",
}


def clean(text: str) -> str:
    """The text without anything that steers a terminal or turns its reading direction.

    Line breaks and tabs stay; every other control character, and every mark that hides or
    reorders text, is written as an escape such as ``\\x1b``.
    """
    text = text.replace("\r\n", "\n")
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character in "\n\t":
        return character
    if character in _INVISIBLE or unicodedata.category(character) in ("Cc", "Cs"):
        return character.encode("unicode_escape").decode("ascii")
    return character


def plain(value: Any) -> str:
    """A JSON value as a person reads it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def action_text(tool: str, arguments: str | Mapping[str, Any]) -> str:
    """A tool call as one line: ``read_doc(name="intro.md", start=81)``.

    Args:
        arguments: as an object, or as the JSON text that the model sent; text that is no JSON
            object is shown as it stands.
    """
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return f"{tool}({arguments})"
    if not isinstance(arguments, Mapping):
        return f"{tool}({json.dumps(arguments, ensure_ascii=False)})"
    inner = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items()
    )
    return f"{tool}({inner})"


def excerpt(text: str, lines: int = MAX_LINES, characters: int = MAX_CHARACTERS) -> str:
    """The beginning of a text; says how much follows.

    Args:
        lines, characters: the most that is kept.
    """
    text = text.rstrip()
    kept = "\n".join(text.split("\n")[:lines])[:characters].rstrip()
    if kept == text:
        return text
    rest = text.count("\n") - kept.count("\n")
    more = f"{rest} more lines" if rest > 1 else f"{len(text) - len(kept)} more characters"
    return f"{kept}\n… ({more})"


def duration(ms: float) -> str:
    """Milliseconds in the units that matter: ``812 ms``, ``3.4 s``, ``5 min 2 s``, ``2 d 4 h``."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    for unit, size, small, small_size in _UNITS:
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            return f"{whole} {unit} {rest // small_size} {small}"
    return f"{seconds:.1f} s"


def tokens(prompt: int, completion: int, estimated: bool = False) -> str:
    """``1,240 in + 35 out tokens``."""
    about = "about " if estimated else ""
    return f"{about}{prompt:,} in + {completion:,} out tokens"


def money(cost: float) -> str:
    """An amount in the price table's currency, whichever that is."""
    return f"cost {cost:.6f}".rstrip("0").rstrip(".")


def totals(view: JobView) -> str:
    """What a job has used: ``3 steps · 1,240 in + 99 out tokens · 2.1 s of work``."""
    parts = [f"{view.steps} step{'' if view.steps == 1 else 's'}", usage_text(view.usage)]
    if view.usage.cost is not None:
        parts.append(money(view.usage.cost))
    return " · ".join([*parts, f"{duration(view.active_ms)} of work"])


def usage_text(usage: Usage) -> str:
    """Tokens, with the cached ones if there are any."""
    text = tokens(usage.prompt_tokens, usage.completion_tokens, usage.estimated)
    return f"{text} ({usage.cached_tokens:,} cached)" if usage.cached_tokens else text


def node_of(owner: str) -> str:
    """The worker's node name out of a lease's owner ``node/boot/pid/``."""
    return owner.partition("/")[0] or owner


def about(pause: Pause) -> str:
    """The call that a pause is about; nothing where the question says it all."""
    action = pause.action
    if action is None or action.tool == HAND_TO_HUMAN:
        return ""
    return action_text(action.tool, action.arguments)


def how_to_answer(view: JobView, options: str = "") -> list[str]:
    """The commands that the job's open pause takes; none if it is not paused.

    Args:
        options: that each of them needs, such as ``--embedded``.
    """
    if view.pause is None:
        return []
    known = [_SIGNALS.get(kind, f"signal {{job}} {kind}") for kind in view.pause.accepts]
    end = f" {options}" if options else ""
    return [f"stepkeeper {form.format(job=view.job_id)}{end}" for form in known]
