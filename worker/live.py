"""Showing a reply while it comes: its pieces go to the job's live stream, in batches.

The model's thread only puts pieces on a list. Another thread writes them, so that a slow store
holds up no reply, and a store that is away costs the reader the rest of this one and nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from worker.models.base import Delta, StreamStopped
from worker.store.base import LiveAnswer

log = logging.getLogger(__name__)

Emit = Callable[[Sequence[dict[str, Any]]], LiveAnswer]
"""Writes records to a job's live stream; says whether the job is still ours, and wanted."""

BATCH_S = 0.05
BATCH_PIECES = 20
ASK_S = 1.0
LEAVE_S = 1.0


class LiveWriter:
    """Takes the pieces of one reply; use it as a context manager around the model call.

    A piece is written at most ``BATCH_S`` seconds after it came, together with its neighbours.
    Without any for ``ASK_S`` seconds the store is asked whether the job is still wanted.

    Args:
        emit: writes to the live stream.
        step: of the reply, from 1.
    """

    def __init__(self, emit: Emit, step: int) -> None:
        self._emit = emit
        self._step = step
        self._changed = threading.Condition()
        self._pieces = [Delta("begin")]
        self._closed = False
        self._answer: LiveAnswer = "committed"
        self._thread = threading.Thread(target=self._run, name="stepkeeper-live", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(LEAVE_S)

    def __call__(self, delta: Delta) -> None:
        """Take one piece.

        Raises:
            StreamStopped: the job is to be cancelled, or runs somewhere else.
        """
        if self._answer != "committed":
            raise StreamStopped(self._answer)
        if delta.text or delta.name or delta.kind == "begin":
            with self._changed:
                self._pieces.append(delta)
                self._changed.notify()

    def _run(self) -> None:
        try:
            while (batch := self._next_batch()) is not None:
                self._answer = self._emit(joined(batch, self._step))
                if self._answer == "fenced":
                    return
        except Exception as error:  # noqa: BLE001 - whatever it is, the job goes on
            log.warning("the rest of this reply is not shown live: %s", error)

    def _next_batch(self) -> list[Delta] | None:
        """What is to be written next, nothing to only ask, ``None`` at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._pieces), ASK_S)
            if self._pieces:
                self._changed.wait_for(self._is_full, BATCH_S)
            batch, self._pieces = self._pieces, []
            return None if self._closed and not batch else batch

    def _is_full(self) -> bool:
        return self._closed or len(self._pieces) >= BATCH_PIECES


def joined(pieces: Sequence[Delta], step: int) -> list[dict[str, Any]]:
    """Records of a live stream: pieces that follow each other in one place are one record."""
    records: list[dict[str, Any]] = []
    place: tuple[str, int] | None = None
    for piece in pieces:
        if place == (piece.kind, piece.index) and not piece.name:
            records[-1]["text"] += piece.text
        else:
            records.append(_record(piece, step))
        place = (piece.kind, piece.index)
    return [{**record, "text": _whole(record["text"])} for record in records]


def _record(piece: Delta, step: int) -> dict[str, Any]:
    record: dict[str, Any] = {"step": step, "kind": piece.kind, "text": piece.text}
    if piece.kind == "call":
        record["call"] = piece.index
    if piece.name:
        record["tool"] = piece.name
    return record


def _whole(text: str) -> str:
    """The text; half a surrogate pair, as the end of a batch may leave it, is replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
