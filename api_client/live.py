"""The live stream of a job: pieces of the model's replies while they are still coming.

It is there to be watched, not to be relied upon: the transcript has the whole reply as soon as it
is committed. The stream is bounded, is forgotten soon after its last piece, and a piece that could
not be written in time is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from api_client.contract import Contract
from api_client.refusals import unreadable
from api_client.sealing import CannotOpen, unseal

LIVE = "live"
"""The place for which its records are sealed."""

LIVE_TTL_S = 3600
"""Seconds that a live stream is kept after its last piece."""

LIVE_LENGTH = 10_000
"""Records that a live stream holds, about; the oldest make room."""

LiveKind = Literal["begin", "text", "call", "refusal"]


class LiveRecord(Contract):
    """Some pieces of one reply, in the order in which they came.

    Attributes:
        id: the offset to go on from.
        step: the number of the reply, from 1, as in the trace.
        kind: ``begin``: a reply begins, or begins again after an error or a crash: what was shown
            of this step before is void. ``text`` and ``refusal``: more of those. ``call``: more
            of a call's arguments, which are JSON.
        text: what is to be appended.
        call: which call of the reply, from 0.
        tool: the call's tool, with its first piece.
    """

    id: str
    step: int
    kind: LiveKind
    text: str = ""
    call: int | None = None
    tool: str = ""


def read_live(job_id: str, record_id: bytes, fields: Mapping[bytes, bytes]) -> LiveRecord:
    """One record of a live stream.

    Raises:
        JobUnreadable: it cannot be opened here.
    """
    try:
        data: dict[str, Any] = json.loads(unseal(fields[b"d"], job_id, LIVE))
    except CannotOpen as error:
        raise unreadable(job_id, "live stream", str(error)) from None
    return LiveRecord(id=record_id.decode(), **data)
