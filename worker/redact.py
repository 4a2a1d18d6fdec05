"""Keeps secrets out of everything that a model, a person, a log or Redis gets to see.

Four sources say what a secret is: a list given by the operator, the worker's environment, the
fields of the job's hidden context, and the shapes that credentials usually have. Error texts, which
nobody wrote on purpose, are treated more strictly than results, which a tool returned deliberately:
documentation that shows ``http://user:password@host`` as an example stays readable.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pydantic import BaseModel, SecretBytes, SecretStr

MARK = "[hidden]"
_ABOUT_SECRETS = frozenset({"secret", "visible"})
_CONSTANTS = (str, bytes, SecretStr, SecretBytes, dict, list, tuple, BaseModel)
_SHORTEST = 4
_SHORTEST_IN_ERRORS = 6
_SHORTEST_GIVEN = 8
_DEEPEST = 4
_WIDEST = 200

_SECRET_NAME = re.compile(
    r"(^|_)pass(code)?($|_)|password|passwd|passphrase|pwd|secret|token(?!iz|s$)|credential|api_?key|(^|_)keys?$"
    r"|private_?key|dsn|cookie|authorization|auth_?header|bearer|session_?id|signature|jwt"
    r"|conn(ection)?_?str|webhook|(database|db)_?ur[il]",
    re.IGNORECASE,
)
_OPEN_KEY = re.compile(
    r"(primary|partition|sort|foreign|cache|public|idempotency|group|row|routing|unique)_keys?$",
    re.IGNORECASE,
)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_OPAQUE = re.compile(r"[A-Za-z0-9_+=~-]{16,}")
_SEGMENTS = re.compile(r"[-_+=~]")

_USERINFO = re.compile(r"://([^\s/?#'\"<>]*)@")
_EXAMPLE = re.compile(r"pass(word|wd)?|pwd|x+|\*+|\.+|\$\{?\w+\}?|\{\w*\}|%s|", re.IGNORECASE)

# Looked for only where the first part is found, because a search for all of them in each
# observation would cost more than many tools do.
_GITHUB = re.compile(r"(?<![A-Za-z0-9])(gh[pousr]|github_pat)_\w{16,}")
_STRIPE = re.compile(r"(?<![A-Za-z0-9])[srp]k_(live|test)_[A-Za-z0-9]{8,}")
_AWS = re.compile(r"(?<![A-Z0-9])A[KS]IA[0-9A-Z]{16}")
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("sk-", re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{12,}")),
    ("_live_", _STRIPE),
    ("_test_", _STRIPE),
    ("ghp_", _GITHUB),
    ("gho_", _GITHUB),
    ("ghu_", _GITHUB),
    ("ghs_", _GITHUB),
    ("ghr_", _GITHUB),
    ("github_pat_", _GITHUB),
    ("glpat-", re.compile(r"glpat-[A-Za-z0-9_-]{16,}")),
    ("xox", re.compile(r"xox[abeprs]-[A-Za-z0-9-]{10,}")),
    ("AKIA", _AWS),
    ("ASIA", _AWS),
    ("AIza", re.compile(r"AIza[A-Za-z0-9_-]{30,}")),
    ("hf_", re.compile(r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,}")),
    ("eyJ", re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")),
    (
        "PRIVATE KEY",
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*-----|\Z)", re.DOTALL),
    ),
)
_SCHEME = re.compile(r"\b(bearer|basic)(\s+)([A-Za-z0-9._~+/-]{12,}=*)", re.IGNORECASE)
_ASSIGNMENT = re.compile(
    r"(?<![\w.-])([\w.-]{0,40}(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key"
    r"|credential|authorization)[\w.-]{0,40}[\"']?\s*[:=]\s*[\"']?)"
    r"((?:(?:bearer|basic)\s+)?[^\s\"',;&)}\]]{4,})",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a field of this name usually holds a secret."""
    return bool(_SECRET_NAME.search(name)) and not _OPEN_KEY.search(name)


@lru_cache(maxsize=4096)
def looks_secret(value: str) -> bool:
    """Whether a text looks like a generated credential rather than a name, a path or an id."""
    if _UUID.fullmatch(value):
        return False
    if _OPAQUE.fullmatch(value) and any(_mixed(part) for part in _SEGMENTS.split(value)):
        return True
    return _hide_shapes(value) != value


def _mixed(part: str) -> bool:
    return len(part) >= 8 and not part.isalpha() and not part.isdigit()


_everywhere: tuple[str, ...] = ()


def hide_everywhere(secrets: Iterable[str]) -> None:
    """Let every redactor of this process, and of its children, hide these as well.

    It replaces what was given before. A text of fewer than eight characters, or a word of small
    letters alone, such as the password ``password``, is not taken: it would be missed in texts.
    """
    global _everywhere
    _everywhere = _with_forms(secret for secret in secrets if not _is_word(secret))


def _is_word(text: str) -> bool:
    return len(text) < _SHORTEST_GIVEN or (text.isalpha() and text.islower())


def environment_secrets(environment: Mapping[str, str]) -> set[str]:
    """Values that are secret by their variable's name, and passwords of URLs."""
    found: set[str] = set()
    for name, value in environment.items():
        if is_secret_name(name) and not value.startswith("/"):  # a folder, such as PWD
            found.update((value, *map(str.strip, value.split(","))))  # a list has several
        if "://" in value and "@" in value:
            found.update(_passwords(value))
    return {value for value in found if len(value) >= _SHORTEST_GIVEN}


def _passwords(url: str) -> set[str]:
    try:
        password = urlsplit(url).password or ""
    except ValueError:
        return set()
    return {password, unquote(password)}


class Redactor:
    """Replaces secrets in texts and JSON values.

    Args:
        secrets: texts that are secret wherever they stand; shorter than four characters are
            refused, because hiding them would make texts unreadable.
        mark: what stands in place of a secret.

    Raises:
        ValueError: one of ``secrets`` is too short.
    """

    def __init__(self, secrets: Iterable[str] = (), *, mark: str = MARK) -> None:
        given = [*secrets]
        if any(len(secret) < _SHORTEST for secret in given):
            raise ValueError(f"a secret must have at least {_SHORTEST} characters to be hidden")
        self.mark = mark
        self._always = _with_forms(given)
        self._in_errors: tuple[str, ...] = ()

    def knowing(self, context: object | None) -> Redactor:
        """A redactor that also hides the secrets of this context."""
        if context is None:
            return self
        always, in_errors = _context_secrets(context)
        if not (always or in_errors):
            return self
        other = Redactor(mark=self.mark)
        other._always = _longest_first({*self._always, *_with_forms(always)})
        other._in_errors = _with_forms({*in_errors} - {*always})
        return other

    @property
    def longest(self) -> int:
        """Length of the longest text that is hidden by value, in characters."""
        texts = (*_everywhere[:1], *self._always[:1], *self._in_errors[:1])
        return max((len(text) for text in texts), default=0)

    def text(self, text: str) -> str:
        """The text without secrets, for what was written on purpose."""
        text = self._replace(text, _everywhere)
        text = self._replace(text, self._always)
        if "://" in text:
            text = _USERINFO.sub(self._hide_userinfo, text)
        return _hide_shapes(text, self.mark)

    def error(self, text: str) -> str:
        """The text without secrets, for error texts and tracebacks."""
        text = self._replace(text, _everywhere)
        text = self._replace(text, self._always)
        text = self._replace(text, self._in_errors)
        text = _USERINFO.sub(f"://{self.mark}@", text)
        text = _hide_shapes(text, self.mark)
        return _ASSIGNMENT.sub(rf"\g<1>{self.mark}", text)

    def value(self, value: Any) -> Any:
        """A JSON value without secrets in its texts and names; containers are copied."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(item) for name, item in value.items()}
        return value

    def _replace(self, text: str, secrets: tuple[str, ...]) -> str:
        for secret in secrets:
            if secret in text:
                text = text.replace(secret, self.mark)
        return text

    def _hide_userinfo(self, match: re.Match[str]) -> str:
        user, colon, password = match.group(1).partition(":")
        example = bool(_EXAMPLE.fullmatch(password)) if colon else not looks_secret(user)
        return match.group() if example else f"://{self.mark}@"


def _hide_shapes(text: str, mark: str = MARK) -> str:
    for first_part, shape in _SHAPES:
        if first_part in text:
            text = shape.sub(mark, text)
    if "earer" in text or "asic" in text or "EARER" in text or "ASIC" in text:
        text = _SCHEME.sub(_hide_scheme(mark), text)
    return text


def _hide_scheme(mark: str) -> Callable[[re.Match[str]], str]:
    def hide(match: re.Match[str]) -> str:
        # "basic understanding" is English; a credential has more than small letters.
        plain = match.group(3).isalpha() and match.group(3).islower()
        return match.group() if plain else f"{match.group(1)}{match.group(2)}{mark}"

    return hide


def _longest_first(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(texts, key=lambda text: (-len(text), text)))


def _with_forms(secrets: Iterable[str]) -> tuple[str, ...]:
    """Each secret as it stands in texts, in JSON, in ``repr`` and in URLs, the longest first."""
    return _longest_first({form for secret in secrets for form in _forms(secret)})


@lru_cache(maxsize=4096)
def _forms(secret: str) -> tuple[str, ...]:
    lines = [line for line in secret.splitlines() if len(line) >= 16]
    forms = {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe="", errors="replace"),
        *lines,
    }
    return tuple(form for form in forms if len(form) >= _SHORTEST)


def _context_secrets(context: object) -> tuple[set[str], set[str]]:
    """What to hide everywhere, and what to hide in error texts besides."""
    listed = frozenset(getattr(context, "secret", ()))
    visible = getattr(context, "visible", ())
    always: set[str] = set()
    in_errors: set[str] = set()
    for name, value in _context_fields(context):
        if name in visible:
            continue
        for path_is_secret, text in _texts_in(value, name in listed or is_secret_name(name), 0):
            if path_is_secret or looks_secret(text):
                always.add(text)
            elif len(text) >= _SHORTEST_IN_ERRORS:
                in_errors.add(text)
            always.update(_url_password(text))
    return {text for text in always if len(text) >= _SHORTEST}, in_errors


def _context_fields(context: object) -> Iterator[tuple[str, Any]]:
    """What a context holds, and what its class holds for all instances."""
    held = dict(_fields(context))
    yield from held.items()
    for cls in type(context).__mro__:
        for name, value in vars(cls).items():
            if name in held or name in _ABOUT_SECRETS or name.startswith("__"):
                continue
            if isinstance(value, _CONSTANTS):
                yield name, value


def _fields(owner: object) -> Iterator[tuple[str, Any]]:
    """Names and values of an instance, whether it keeps them in a dict or in slots."""
    yield from getattr(owner, "__dict__", {}).items()
    for cls in type(owner).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(owner, name):
                yield name, getattr(owner, name)


def _texts_in(value: Any, secret: bool, depth: int) -> Iterator[tuple[bool, str]]:
    """Every text in a context's field, with whether its place says that it is secret."""
    if isinstance(value, str):
        yield secret, value
    elif isinstance(value, SecretStr):
        yield True, value.get_secret_value()
    elif isinstance(value, (bytes, SecretBytes)):
        raw = value if isinstance(value, bytes) else value.get_secret_value()
        yield secret or isinstance(value, SecretBytes), raw.decode("utf-8", "replace")
    elif depth < _DEEPEST:
        for name, item in _items(value):
            yield from _texts_in(item, secret or is_secret_name(name), depth + 1)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((str(name), item) for name, item in islice(value.items(), _WIDEST))
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from (("", item) for item in islice(value, _WIDEST))
    elif isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
        yield from _fields(value)
    else:
        # Clients and pools hold much that is none of ours; only what is named like a secret.
        plain = getattr(value, "__dict__", None) or {}
        yield from ((n, v) for n, v in plain.items() if isinstance(v, str) and is_secret_name(n))


def _url_password(text: str) -> Iterator[str]:
    if "://" not in text or "@" not in text:
        return
    try:
        parts = urlsplit(text)
        password, plain = parts.password, (parts.scheme, parts.username, parts.hostname)
    except ValueError:
        return
    # A password that is also a word of the address, as in development, would hide that word.
    if password and password not in plain and not _EXAMPLE.fullmatch(password):
        yield password
        yield unquote(password)
