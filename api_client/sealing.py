"""What stands in Redis in place of a text: packed if it is long, encrypted if there are keys.

AES-256-GCM under a key of the job's own, which is made of a key of ``STEPKEEPER_ENCRYPTION_KEYS``
and the job's id; the place in the job (message, trace, answer, …) is authenticated with it. So what
was taken from another job or another place cannot be opened. A sealed value is the byte 1, the
letter k, four bytes that name the key, twelve of a nonce, and the encrypted text. Where scripts
read a part of a JSON object, only the rest of it is sealed, as its field ``sealed`` in base64.

Values that are not sealed are read as they are, so that encryption can be switched on at any time.
Once everything is sealed, ``STEPKEEPER_ENCRYPTION_REQUIRED`` ends that: what stands in the clear
where a sealed value should is then refused, for somebody else may have put it there.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from pydantic_core import to_json

from api_client.codec import MARK, decode, encode, encode_bytes
from api_client.errors import InvalidInput
from api_client.protection import protection

SEALED = MARK + b"k"
FIELD = "sealed"
SETTING = "STEPKEEPER_ENCRYPTION_KEYS"
REQUIRED = "STEPKEEPER_ENCRYPTION_REQUIRED"
IN_THE_CLEAR = (
    f"it stands in the clear, and {REQUIRED} is set: a program without the keys, or somebody else, "
    "has written it. If you know who, seal it with that setting off: stepkeeper rekey"
)
KEY_BYTES = 32
_ID_BYTES = 4
_NONCE_BYTES = 12
_HEAD = len(SEALED) + _ID_BYTES
_CIPHERS_KEPT = 4096


class CannotOpen(ValueError):
    """What is stored is encrypted, and this program cannot open it, or it should be; says why."""


class Keyring:
    """The keys of this process; without any, everything is written in the clear.

    Args:
        keys: of 32 bytes each; the first one seals, all of them open.
        required: whether what is in the clear is refused where it should be sealed.
    """

    def __init__(self, keys: Sequence[bytes] = (), *, required: bool = False) -> None:
        self.required = required
        self._keys = {key_id(key): key for key in keys}
        self._first = next(iter(self._keys), b"")

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the keys, eight hexadecimal digits each, that of the first one first."""
        return tuple(name.hex() for name in self._keys)

    def is_first(self, stored: bytes) -> bool:
        """Whether a value is sealed with the first key."""
        return stored.startswith(SEALED + self._first)

    def is_first_in(self, stored: bytes) -> bool:
        """Whether the sealed part of a JSON object is sealed with the first key."""
        start = base64.b64encode(SEALED + self._first)[:8]  # whole groups of three bytes only
        return f'"{FIELD}":"'.encode() + start in stored

    def seal(self, data: bytes, job_id: str, place: str) -> bytes:
        """The sealed form of some bytes; there must be a key."""
        nonce = os.urandom(_NONCE_BYTES)
        cipher = _cipher(self._keys[self._first], job_id)
        sealed: bytes = cipher.encrypt(nonce, data, _bound(job_id, place))
        return SEALED + self._first + nonce + sealed

    def open(self, stored: bytes, job_id: str, place: str) -> bytes:
        """What was sealed.

        Raises:
            CannotOpen: its key is not here, or it does not belong to this job and place.
        """
        from cryptography.exceptions import InvalidTag

        name = stored[len(SEALED) : _HEAD]
        if name not in self._keys:
            raise CannotOpen(_no_key(name.hex()))
        nonce, data = stored[_HEAD : _HEAD + _NONCE_BYTES], stored[_HEAD + _NONCE_BYTES :]
        try:
            cipher = _cipher(self._keys[name], job_id)
            opened: bytes = cipher.decrypt(nonce, data, _bound(job_id, place))
        except (InvalidTag, ValueError):
            raise CannotOpen(
                f"it was sealed for another job or place, or changed: as {place} it does not open"
            ) from None
        return opened


def _no_key(name: str) -> str:
    return f"it is encrypted with the key {name}, which is not in {SETTING}; add it there"


def sealed_with(stored: bytes) -> str:
    """The name of the key with which a value is sealed; empty if it is not."""
    return stored[len(SEALED) : _HEAD].hex() if stored.startswith(SEALED) else ""


def locked(name: str) -> str:
    """Why a worker leaves a job alone: it lacks the key of this name, or nothing is sealed."""
    return _no_key(name) if name else IN_THE_CLEAR


def key_id(key: bytes) -> bytes:
    """The name of a key, which tells nothing of it."""
    return hmac.digest(key, b"stepkeeper key", "sha256")[:_ID_BYTES]


def new_key() -> str:
    """A key as the setting takes it."""
    return base64.urlsafe_b64encode(os.urandom(KEY_BYTES)).decode()


@lru_cache(maxsize=_CIPHERS_KEPT)
def _cipher(key: bytes, job_id: str) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.digest(key, b"stepkeeper job " + _bytes(job_id), "sha256"))


def _bound(job_id: str, place: str) -> bytes:
    return _bytes(f"{job_id} {place}")


def _bytes(text: str) -> bytes:
    """Any text at all: whether it is a job's id is asked elsewhere."""
    return text.encode("utf-8", "surrogatepass")


@cache
def keyring() -> Keyring:
    """The keys of this process; its environment is read once.

    Raises:
        InvalidInput: one of them is none, or the extra is missing, or there is none and everything
            is to be encrypted. No key is shown.
    """
    given = protection()
    return read_keyring(
        given.encryption_keys.get_secret_value(), required=given.encryption_required
    )


def read_keyring(text: str, *, required: bool = False) -> Keyring:
    """Keys as the setting has them; raises what ``keyring`` does."""
    texts = [part.strip() for part in text.split(",") if part.strip()]
    if required and not texts:
        raise InvalidInput(f"{REQUIRED} is set, and {SETTING} is not: give the keys, too")
    if not texts:
        return Keyring()
    try:
        import cryptography  # noqa: F401 - whether it is there
    except ImportError:
        raise InvalidInput(
            f"{SETTING} needs an extra: pip install 'stepkeeper[encryption]'"
        ) from None
    keys = [_read_key(number, each) for number, each in enumerate(texts, 1)]
    return Keyring(keys, required=required)


def _read_key(number: int, text: str) -> bytes:
    try:
        key = base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInput(
            f"{SETTING}: its key number {number} is not {KEY_BYTES} bytes in base64url; "
            "make one with: stepkeeper new-key"
        )
    return key


# --- whole values ------------------------------------------------------------------------------


def seal(text: str, job_id: str, place: str) -> str | bytes:
    """What is stored in place of a text."""
    packed = encode(text)
    ring = keyring()
    if not ring:
        return packed
    data = packed.encode() if isinstance(packed, str) else packed
    return ring.seal(data, job_id, place)


def seal_bytes(data: bytes, job_id: str, place: str) -> bytes:
    """The same of a text in UTF-8."""
    packed, ring = encode_bytes(data), keyring()
    return ring.seal(packed, job_id, place) if ring else packed


def unseal(stored: bytes, job_id: str, place: str) -> bytes:
    """The text that was stored.

    Raises:
        CannotOpen: see ``Keyring.open``; or it is not sealed, and must be.
        ValueError: it was packed in a way that this program does not know, or is damaged.
    """
    if stored.startswith(SEALED):
        stored = keyring().open(stored, job_id, place)
    elif keyring().required:
        raise CannotOpen(IN_THE_CLEAR)
    return decode(stored)


def unsealed(stored: bytes, job_id: str, place: str) -> str:
    """The same as ``unseal``, as a text."""
    return unseal(stored, job_id, place).decode()


# --- objects of which scripts read a part --------------------------------------------------------


def hide(value: Mapping[str, Any], shown: Collection[str], job_id: str, place: str) -> str:
    """An object as JSON, sealed, beside copies of the fields ``shown``; all of it without keys.

    The copies are for scripts. Who opens the object goes by what is sealed.
    """
    ring = keyring()
    if not ring:
        return to_json(value).decode()
    sealed = base64.b64encode(ring.seal(to_json(value), job_id, place)).decode()
    return to_json({**{n: i for n, i in value.items() if n in shown}, FIELD: sealed}).decode()


def reveal(stored: bytes, job_id: str, place: str, plain: Collection[str] = ()) -> str:
    """An object as JSON that was sealed as a whole, or by ``hide``, or not at all.

    Args:
        plain: fields of an object that scripts have written, and that is never sealed.

    Raises:
        CannotOpen, ValueError: as ``unseal``.
    """
    if stored.startswith(SEALED):
        return unsealed(stored, job_id, place)
    text = decode(stored).decode()
    if not keyring().required and f'"{FIELD}"' not in text:
        return text
    value = json.loads(text)
    sealed = value.pop(FIELD, None) if isinstance(value, dict) else None
    if isinstance(sealed, str):
        return _whole(value, sealed, job_id, place)
    if keyring().required and not holds_only(value, plain):
        raise CannotOpen(IN_THE_CLEAR)
    return text


def holds_only(value: Any, plain: Collection[str]) -> bool:
    """Whether something is an object with no other fields than these."""
    return isinstance(value, dict) and set(value) <= set(plain)


def _whole(copies: dict[str, Any], sealed: str, job_id: str, place: str) -> str:
    try:
        data = base64.b64decode(sealed, validate=True)
    except binascii.Error:
        raise CannotOpen("its sealed part is damaged") from None
    opened = unsealed(data, job_id, place)
    if keyring().required:
        return opened
    return json.dumps({**copies, **json.loads(opened)})
