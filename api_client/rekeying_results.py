"""Sealing anew the results in Celery's result backend, if that is Redis."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from celery import Celery
from celery.backends.base import (  # type: ignore[attr-defined]
    DisabledBackend,
    decompress_payload,
)
from celery.backends.redis import RedisBackend
from redis.exceptions import NoPermissionError

from api_client.connection import Client, translated
from api_client.rekeying_jobs import Rekeyed, Remaining
from api_client.scripts import Scripts
from api_client.sealed_results import NAME, open_result, seal_result
from api_client.sealing import SEALED, keyring

_SCRIPTS = Scripts("api_client")
_AT_ONCE = 500

Kind = Literal["sealed", "plain", "other"]


class ResultKeys:
    """The results of one app, for who changes its keys. Workers may store others meanwhile.

    Args:
        app: whose result backend it is.
        plain: whether results in the clear are sealed as well: they may be another app's, which
            reads no others.
    """

    def __init__(self, app: Celery, *, plain: bool = False) -> None:
        self._app = app
        self._plain = plain and app.conf.result_serializer == NAME
        self._backend: Any = app.backend

    def rekey(
        self, job_ids: Sequence[str], now_ms: int, found: Rekeyed, *, dry_run: bool = False
    ) -> None:
        """Seal results with the first key that are not yet, and note what became of them.

        Args:
            job_ids: whose results are looked at where the Redis user may not look for all.
            now_ms: on Redis's clock.

        Raises:
            StoreUnavailable: the backend cannot be reached.
        """
        if isinstance(self._backend, DisabledBackend):
            return
        expires_ms = now_ms + int((self._backend.expires or 0) * 1000)
        if not isinstance(self._backend, RedisBackend):
            kind = type(self._backend).__name__
            found.remaining.append(
                Remaining(f"results in Celery's {kind}, which were not looked at", expires_ms)
            )
            return
        client: Any = self._backend.client
        with translated("Celery's result backend"):
            names, complete = self._names(client, job_ids)
            look = _Look(client, self._plain, dry_run=dry_run)
            for name in names:
                look.at(name, found)
        if look.left:
            longest = max(look.left)
            found.remaining.append(
                Remaining(
                    f"{len(look.left)} results in the clear; --app MODULE[:APP] names the app to "
                    "which they belong, to encrypt them",
                    now_ms + longest if min(look.left) >= 0 else 0,
                )
            )
        if not complete:
            found.remaining.append(
                Remaining(
                    "results of other tasks than the jobs that are stored: this Redis user may "
                    "not SCAN",
                    expires_ms,
                )
            )

    def _names(self, client: Client, job_ids: Sequence[str]) -> tuple[list[bytes], bool]:
        """Keys of results, and whether these are all of them."""
        try:
            return [*self._scanned(client)], True
        except NoPermissionError:
            return [self._backend.get_key_for_task(job_id) for job_id in job_ids], False

    def _scanned(self, client: Client) -> Iterator[bytes]:
        for prefix in (self._backend.task_keyprefix, self._backend.group_keyprefix):
            pattern = re.sub(rb"([*?\[\]\\])", rb"\\\1", prefix) + b"*"
            yield from client.scan_iter(pattern, count=_AT_ONCE)


class _Look:
    """One walk over keys of results.

    Attributes:
        left: milliseconds until each result is forgotten that stays in the clear.
    """

    def __init__(self, client: Client, plain: bool, *, dry_run: bool) -> None:
        self._client: Any = client
        self._plain = plain
        self._dry_run = dry_run
        self.left: list[int] = []

    def at(self, name: bytes, found: Rekeyed) -> None:
        """A result; or those that a chord has gathered, a member each."""
        read: Callable[[bytes], list[bytes]] | None = {
            b"string": lambda key: [self._client.get(key) or b""],
            b"zset": lambda key: self._client.zrange(key, 0, -1),
            b"list": lambda key: self._client.lrange(key, 0, -1),
        }.get(self._client.type(name))
        changes: list[str | bytes] = []
        for stored in read(name) if read else ():
            try:
                new = self._new(name, stored)
            except ValueError as error:
                found.unreadable.append(f"result {name.decode()}: it cannot be read: {error}")
                continue
            changes += [stored, new] if new else []
        found.results += bool(changes)
        if changes and not self._dry_run:
            _SCRIPTS.run(self._client, "rekey_result", [name.decode()], changes)

    def _new(self, name: bytes, stored: bytes) -> str:
        """A result, sealed anew; empty if it stays as it is.

        Raises:
            ValueError: it cannot be opened.
        """
        whole = decompress_payload(stored)
        text = whole.encode() if isinstance(whole, str) else whole
        match _kind(text):
            case "sealed" if not keyring().is_first(base64.b64decode(text)):
                return seal_result(open_result(text))
            case "plain" if self._plain:
                return seal_result(open_result(text))
            case "plain":
                self.left.append(int(self._client.pttl(name)))
        return ""


def _kind(text: bytes) -> Kind:
    if text.startswith((b"{", b"[")):
        return "plain"
    try:
        sealed = base64.b64decode(text, validate=True).startswith(SEALED)
    except binascii.Error:
        return "other"
    return "sealed" if sealed else "other"
