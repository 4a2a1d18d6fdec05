"""API keys: shown once, stored hashed.

A key is ``sk_ID_SECRET``. The id is public and names the key in lists and logs; of the secret only
a keyed BLAKE2b hash is stored, with a salt of its own. The secret has 256 random bits, so a slow
hash would only slow down the server.

All keys stand in the Redis hash ``sk:apikeys``, by their ids, as JSON.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated

from pydantic import Field, ValidationError

from api_client.connection import Client, translated
from api_client.contract import Contract
from api_client.errors import InvalidInput, shorten
from api_client.records import one_line
from worker.web.callers import Caller, Role

API_KEYS = "sk:apikeys"

_FORM = re.compile(r"sk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_PERSON = b"stepkeeper key"
_NOBODY = "00" * 32
_DAY_MS = 86_400_000

Label = Annotated[str, Field(min_length=1, max_length=100)]


class StoredKey(Contract):
    """What is stored of a key.

    Attributes:
        roles, labels, tenant: see ``worker.web.callers``.
        created, expires: milliseconds since the epoch; ``None``: never.
        salt, digest: of the secret, in hexadecimal digits.
    """

    id: str
    name: str = Field(min_length=1, max_length=100)
    roles: tuple[Role, ...] = Field(min_length=1)
    labels: tuple[Label, ...] = ()
    tenant: str = Field(default="", max_length=100)
    created: int = 0
    expires: int | None = None
    salt: str = Field(repr=False)
    digest: str = Field(repr=False)

    def caller(self) -> Caller:
        """The key as who is asking."""
        return Caller(
            self.id, self.name, frozenset(self.roles), frozenset(self.labels), self.tenant
        )

    def expired(self, now: int) -> bool:
        """Whether it is over at ``now``, in milliseconds since the epoch."""
        return self.expires is not None and now >= self.expires


class KeyRing:
    """The keys in one Redis.

    Args:
        client: an open redis-py client.
        where: what errors call the server.

    Every method may raise ``StoreUnavailable``.
    """

    def __init__(self, client: Client, where: str = "the store") -> None:
        self._redis = client
        self._where = where

    def create(
        self,
        name: str,
        roles: Sequence[str],
        *,
        labels: Sequence[str] = (),
        tenant: str = "",
        days: float | None = None,
    ) -> tuple[StoredKey, str]:
        """Make a key; returns what is stored, and the key itself, which nobody can read again.

        Args:
            days: after which it is refused; never, if not given.

        Raises:
            InvalidInput: names the field and what is wrong with it.
        """
        key_id, secret, salt = (
            secrets.token_hex(6),
            secrets.token_urlsafe(32),
            secrets.token_hex(32),
        )
        created = now_ms()
        try:
            stored = StoredKey(
                id=key_id,
                name=name,
                roles=tuple(Role(role) for role in dict.fromkeys(roles)),
                labels=tuple(dict.fromkeys(labels)),
                tenant=tenant,
                created=created,
                expires=None if days is None else created + int(days * _DAY_MS),
                salt=salt,
                digest=_digest(secret, salt),
            )
        except ValidationError as error:
            raise InvalidInput(f"key: {one_line(error)}") from None
        except ValueError as error:
            raise InvalidInput(f"key: {error}; roles are {', '.join(Role)}") from None
        with translated(self._where):
            self._redis.hset(API_KEYS, key_id, stored.model_dump_json())
        return stored, f"sk_{key_id}_{secret}"

    def list(self) -> list[StoredKey]:
        """All keys, the oldest first."""
        with translated(self._where):
            raw = self._redis.hvals(API_KEYS)
        return sorted(map(StoredKey.model_validate_json, raw), key=lambda key: key.created)

    def revoke(self, key_id: str) -> None:
        """Forget a key: it is refused from now on, and so are its sessions.

        Raises:
            InvalidInput: there is no such key.
        """
        with translated(self._where):
            if not self._redis.hdel(API_KEYS, key_id):
                raise InvalidInput(f"no key {shorten(key_id)}; see: stepkeeper keys list")

    def get(self, key_id: str) -> StoredKey | None:
        """A key that is valid now."""
        with translated(self._where):
            raw = self._redis.hget(API_KEYS, key_id)
        stored = None if raw is None else StoredKey.model_validate_json(raw)
        return None if stored is None or stored.expired(now_ms()) else stored

    def check(self, text: str) -> Caller | None:
        """Whose key this is; ``None`` for anything that is no valid key.

        An unknown id takes as long as a wrong secret.
        """
        form = _FORM.fullmatch(text)
        if form is None:
            return None
        key_id, secret = form.groups()
        stored = self.get(key_id)
        digest = _digest(secret, stored.salt if stored else _NOBODY)
        same = hmac.compare_digest(digest, stored.digest if stored else _NOBODY)
        return stored.caller() if stored and same else None


def now_ms() -> int:
    """Milliseconds since the epoch, by this machine's clock."""
    return time.time_ns() // 1_000_000


def _digest(secret: str, salt: str) -> str:
    return blake2b(
        secret.encode(), key=bytes.fromhex(salt), person=_PERSON, digest_size=32
    ).hexdigest()
