"""Jinja, where everything from outside is escaped and made visible.

Whatever is printed and is no markup of ours goes through ``clean`` and is escaped. Only the text
inside a form's field stays as it is, because it comes back as a value: ``raw``.
"""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from worker.rendering.texts import clean, plain
from worker.web.console.visitors import Visitor, language_of
from worker.web.console.words import LANGUAGES, NAMES, Language, known, number, span, speak
from worker.web.keys import now_ms

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"


_JUST_NOW_MS = 60_000


def _visible(value: Any) -> Any:
    """Text from outside without what hides or reorders it."""
    return clean(value) if type(value) is str else value


def raw(value: str) -> Markup:
    """A text for a form's field: escaped, but otherwise untouched."""
    return Markup("{}").format(value)


def pretty(value: Any) -> str:
    """A JSON value for reading: text as it is, anything else on several lines."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def arguments(text: str) -> Any:
    """The arguments of a call out of their JSON text; the text itself if it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def hides(values: Any) -> bool:
    """Whether a value holds characters that its reader would not see as they are."""
    text = json.dumps(values, ensure_ascii=False)
    return clean(text) != text


def utc(ms: int) -> str:
    """A time as ``<time>`` wants it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_written(ms: int) -> str:
    """A time for people where no script puts it into their own time zone."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@lru_cache
def static(name: str) -> str:
    """The address of one of our files; it changes with what is in the file."""
    digest = blake2b((STATIC / name).read_bytes(), digest_size=6).hexdigest()
    return f"/static/{name}?v={digest}"


def _environment() -> Environment:
    env = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        raw=raw,
        pretty=pretty,
        arguments=arguments,
        hides=hides,
        plain=plain,
        utc=utc,
        as_written=as_written,
    )
    env.globals.update(static=static, languages=LANGUAGES, language_names=NAMES, known=known)
    return env


_ENV = _environment()


def render(template: str, language: Language, /, **values: Any) -> str:
    """A template as HTML."""
    now = now_ms()
    say = speak(language)

    def ago(ms: int) -> str:
        if now - ms < _JUST_NOW_MS:
            return say("just_now")
        return say("ago", time=span(now - ms, language))

    return _ENV.get_template(template).render(
        say=say,
        ago=ago,
        language=language,
        number=lambda value: number(value, language),
        span=lambda ms: span(ms, language),
        now=now,
        once=secrets.token_hex(12),
        **values,
    )


def page(
    request: Request, visitor: Visitor, template: str, /, *, code: int = 200, **values: Any
) -> Response:
    """A page for somebody who has logged in."""
    text = render(
        template,
        visitor.language,
        visitor=visitor,
        here=here(request),
        path=request.url.path,
        **values,
    )
    response = HTMLResponse(text, code)
    if visitor.fresh:
        visitor.remember(response)
    return response


def bare_page(request: Request, template: str, /, *, code: int = 200, **values: Any) -> Response:
    """A page for anybody."""
    text = render(
        template,
        language_of(request),
        visitor=None,
        here=here(request),
        path=request.url.path,
        **values,
    )
    return HTMLResponse(text, code)


def here(request: Request) -> str:
    """The address of the page that is asked for, to come back to."""
    query = f"?{request.url.query}" if request.url.query else ""
    return request.url.path + query
