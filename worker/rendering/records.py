"""The trace for programs: each record with the messages that it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from api_client.contract import Event
from worker.rendering.follow import TraceSource
from worker.rendering.transcript import TranscriptReader


def trace_records(
    store: TraceSource, job_id: str, events: Iterable[Event]
) -> Iterator[dict[str, Any]]:
    """One JSON object a record: ``id``, ``at`` (ms since the epoch), ``kind``, ``data``, and

    - ``message``: the message that the record names by its index ``i``;
    - ``input``: the task, with the record ``submitted``;
    - ``messages``: answers of calls that no record names, with the record that ends the job;
    - ``outcome``: with that record, too.
    """
    transcript = TranscriptReader(lambda start: store.messages(job_id, start))
    named = -1
    for event in events:
        record: dict[str, Any] = {
            "id": event.id,
            "at": event.at,
            "kind": event.kind,
            "data": event.data,
        }
        index = event.data.get("i")
        if isinstance(index, int):
            named = index
            record["message"] = transcript.at(index)
        if event.kind == "submitted":
            record["input"] = store.read(job_id).spec.input
        if event.kind in ("finished", "failed", "cancelled"):
            record["messages"] = [transcript.at(i) for i in transcript.answers_after(named)]
            outcome = store.read(job_id).outcome
            record["outcome"] = outcome and outcome.model_dump(mode="json")
        yield record
