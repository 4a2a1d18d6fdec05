"""Who looks at a page: sessions, languages, and the token that every form carries.

A session is a signed cookie that names a key and a person; nothing of it is stored. The key is
looked up at each request, so a revoked one ends its sessions at once.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b, sha256
from typing import Annotated

from fastapi import Depends, Request, Response

from worker.web.callers import LOCAL, Caller
from worker.web.console.words import Language, Say, chosen, speak
from worker.web.desk import Desk
from worker.web.identify import is_local, is_own_page, parts_of, take
from worker.web.keys import now_ms
from worker.web.parts import Parts
from worker.web.problems import Problem

SESSION_COOKIE = "stepkeeper_session"
LANGUAGE_COOKIE = "stepkeeper_language"
MAX_NAME = 60

_YEAR_S = 365 * 24 * 3600


class LoginNeeded(Exception):
    """The page is for people who have logged in."""


@dataclass(frozen=True, slots=True)
class Session:
    """Who has logged in.

    Attributes:
        key: the id of the API key; ``""`` where none is needed.
        name: the person's own, or ``""``.
        nonce: makes the session and its tokens its own.
        expires: milliseconds since the epoch.
    """

    key: str
    name: str
    nonce: str
    expires: int

    @classmethod
    def start(cls, key: str, name: str, hours: float) -> Session:
        """A new session."""
        expires = now_ms() + int(hours * 3_600_000)
        return cls(key, " ".join(name.split())[:MAX_NAME], secrets.token_hex(16), expires)


class Signer:
    """Signs sessions, and makes the tokens of forms.

    Args:
        secret: of the server.
    """

    def __init__(self, secret: bytes) -> None:
        self._key = blake2b(secret, person=b"stepkeeper web", digest_size=32).digest()

    def seal(self, session: Session) -> str:
        """The session as a cookie's value."""
        fields = [session.key, session.name, session.nonce, session.expires]
        text = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()
        return f"{text}.{self._sign('session', text)}"

    def open(self, sealed: str) -> Session | None:
        """The session of a cookie; ``None`` if it is not ours, or over."""
        text, _, signature = sealed.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("session", text).encode()):
            return None
        session = Session(*json.loads(base64.urlsafe_b64decode(text)))
        return session if session.expires > now_ms() else None

    def token(self, session: Session) -> str:
        """What each form of this session carries."""
        return self._sign("form", session.nonce)

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode(), sha256).hexdigest()


@dataclass(frozen=True)
class Visitor:
    """One person at the console."""

    parts: Parts
    caller: Caller
    session: Session
    language: Language
    fresh: bool = False

    @cached_property
    def desk(self) -> Desk:
        """Jobs as this person may see them."""
        return self.parts.desk(self.caller)

    @property
    def say(self) -> Say:
        """Sentences in the person's language."""
        return speak(self.language)

    @property
    def name(self) -> str:
        """How decisions are signed."""
        return self.caller.signs(self.session.name)

    @property
    def token(self) -> str:
        """What each of this person's forms carries."""
        return signer_of(self.parts).token(self.session)

    def remember(self, response: Response) -> None:
        """Keep the session in the browser."""
        set_cookie(
            self.parts, response, SESSION_COOKIE, signer_of(self.parts).seal(self.session), None
        )


def signer_of(parts: Parts) -> Signer:
    """Signs with the server's secret."""
    return Signer(parts.secret)


def set_cookie(
    parts: Parts, response: Response, name: str, value: str, max_age: int | None
) -> None:
    """A cookie that no script can read and no other site can send."""
    response.set_cookie(
        name,
        value,
        max_age=max_age,
        path="/",
        secure=parts.settings.https,
        httponly=True,
        samesite="strict",
    )


def remember_language(parts: Parts, response: Response, language: Language) -> None:
    """Keep a language that was chosen for a year."""
    set_cookie(parts, response, LANGUAGE_COOKIE, language, _YEAR_S)


def language_of(request: Request) -> Language:
    """The language of a request."""
    cookie = request.cookies.get(LANGUAGE_COOKIE)
    return chosen(request.headers.get("accept-language", ""), cookie)


def welcome(request: Request) -> Visitor:
    """Who asks for a page.

    Raises:
        LoginNeeded
        Problem: 429.
        StoreUnavailable
    """
    parts = parts_of(request)
    visitor = _known(parts, request) or _keyless(parts, request)
    if visitor is None:
        raise LoginNeeded
    take(parts, visitor.caller.id or "local")
    return visitor


def _known(parts: Parts, request: Request) -> Visitor | None:
    sealed = request.cookies.get(SESSION_COOKIE)
    session = signer_of(parts).open(sealed) if sealed else None
    if session is None or not session.key:
        return None
    stored = parts.ring.get(session.key)
    if stored is None:
        return None
    return Visitor(parts, stored.caller(), session, language_of(request))


def _keyless(parts: Parts, request: Request) -> Visitor | None:
    """Whoever sits at this machine; the session is there for the tokens of forms only."""
    if not parts.settings.keyless_loopback or not is_local(request):
        return None
    sealed = request.cookies.get(SESSION_COOKIE)
    session = signer_of(parts).open(sealed) if sealed else None
    fresh = session is None or bool(session.key)
    if session is None or session.key:
        session = Session.start("", "", parts.settings.session_hours)
    return Visitor(parts, LOCAL, session, language_of(request), fresh)


async def posted(request: Request) -> dict[str, str]:
    """The fields of a form; of several of one name the last."""
    form = await request.form(max_files=0, max_fields=500)
    return {name: value for name, value in form.items() if isinstance(value, str)}


def check_origin(request: Request) -> None:
    """Refuse what a page of another site has sent.

    Raises:
        Problem: 403.
    """
    if not is_own_page(request.headers):
        raise Problem(403, "not-allowed", "this came from another site")


def check_token(visitor: Visitor, form: dict[str, str]) -> None:
    """Refuse a form that is not of this session.

    Raises:
        Problem: 403.
    """
    given = form.get("token", "")
    if not hmac.compare_digest(given.encode(), visitor.token.encode()):
        raise Problem(403, "bad-form", "the form was too old, or came from elsewhere")


def acting(
    request: Request,
    visitor: Annotated[Visitor, Depends(welcome)],
    form: Annotated[dict[str, str], Depends(posted)],
) -> tuple[Visitor, dict[str, str]]:
    """Who has sent a form, and what stands in it.

    Raises:
        LoginNeeded, Problem, StoreUnavailable
    """
    check_origin(request)
    check_token(visitor, form)
    return visitor, form


VisitorHere = Annotated[Visitor, Depends(welcome)]
ActingHere = Annotated[tuple[Visitor, dict[str, str]], Depends(acting)]


def safe_path(path: str | None) -> str:
    """Where to go after logging in: a page of ours, never another site."""
    if not path or not path.startswith("/") or path.startswith(("//", "/\\")):
        return "/inbox"
    return "/inbox" if any(ord(c) < 33 or c == "\\" for c in path) else path
