"""What stands in Redis in place of a JSON text: the text itself, or a packed form of it.

A packed value begins with the byte 1, which begins no JSON text and no other value that we store,
and a letter that names how it was packed. So every reader knows at once what it has, and what was
stored before there was any packing reads as it always did. All readers and writers of texts that
may be long go through ``encode`` and ``decode`` here; a further way of packing is a further letter.
"""

from __future__ import annotations

import zlib

from api_client.sizes import MOST, sizes

MARK = b"\x01"
ZLIB = MARK + b"z"
LONGEST = 2 * MOST
"""Of one text, in bytes."""

_LEVEL = 4
"""Of zlib: nearly as small as the default, in half its time."""


def encode(text: str) -> str | bytes:
    """What is stored in place of a text: a long one compressed, if that makes it smaller."""
    return encode_bytes(text.encode()) if is_long(text) else text


def encode_bytes(data: bytes) -> bytes:
    """The same of a text in UTF-8."""
    return pack(data) if is_long(data) else data


def is_long(text: str | bytes) -> bool:
    """Whether a text is to be compressed."""
    threshold = sizes().compress_over_bytes
    return 0 < threshold < len(text)


def pack(data: bytes) -> bytes:
    """The compressed form of a text, or the text if that is shorter."""
    packed = ZLIB + zlib.compress(data, _LEVEL)
    return packed if len(packed) < len(data) else data


def decode(stored: bytes) -> bytes:
    """The text that was stored.

    Raises:
        ValueError: it was packed by something that this program does not know, or is damaged.
    """
    while stored.startswith(MARK):
        stored = unpack(stored)
    return stored


def unpack(stored: bytes) -> bytes:
    """What a packed value holds.

    Raises:
        ValueError: as ``decode``.
    """
    if not stored.startswith(ZLIB):
        raise ValueError(
            f"it was stored in the form {stored[1:2]!r}, which this version does not know; "
            "upgrade it"
        )
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(memoryview(stored)[2:], LONGEST)
    except zlib.error as error:
        raise ValueError(f"what was stored is damaged: {error}") from None
    if reader.eof:
        return data
    if reader.unconsumed_tail:
        raise ValueError(f"what was stored would become more than {LONGEST:,} bytes")
    raise ValueError("what was stored is damaged: it breaks off")


def decoded(stored: bytes) -> str:
    """The same as ``decode``, as a text."""
    return decode(stored).decode()
