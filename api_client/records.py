"""Reading a stored record: bytes from Redis to the values of the contract."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from api_client import runs
from api_client.codec import decoded, is_long
from api_client.contract import (
    SCHEMA_VERSION,
    AnsweredPause,
    Event,
    JobSpec,
    JobStatus,
    JobView,
    Mail,
    Outcome,
    Pause,
    Usage,
    Wish,
)
from api_client.errors import InvalidInput, JobUnreadable, shorten
from api_client.refusals import unreadable
from api_client.runs import numbered, read_run, read_usage
from api_client.sealing import (
    SEALED,
    CannotOpen,
    hide,
    holds_only,
    keyring,
    reveal,
    seal,
    unseal,
    unsealed,
)

_SHOWN_CHARACTERS = 60

# Places in a job for which something is sealed; others are called as their field is.
MESSAGE, TRACE, OUTCOME, PAUSE, MAIL = "message", "trace", "outcome", "pause", "mail"

EVENT_ID_PATTERN = re.compile(r"[0-9]{1,18}(-[0-9]{1,18})?", re.ASCII)


def dumps(value: Any) -> str:
    """Compact JSON. Text stays text; what UTF-8 cannot carry (a lone surrogate) is escaped."""
    return json_bytes(value).decode()


def json_bytes(value: Any) -> bytes:
    """The same in UTF-8."""
    try:
        return to_json(value)  # ten times as quick as json.dumps, and it refuses those
    except PydanticSerializationError:
        return json.dumps(value, separators=(",", ":")).encode()


def pairs(flat: Iterable[bytes]) -> dict[str, str]:
    """A flat reply of field, value, field, value … as a dict of texts; not for a job's record."""
    items = [item.decode() for item in flat]
    return dict(zip(items[::2], items[1::2], strict=True))


def record_of(job_id: str, flat: Sequence[bytes]) -> dict[str, str]:
    """A job's record from a flat reply; raises what ``texts_of`` does."""
    return texts_of(job_id, dict(zip(flat[::2], flat[1::2], strict=True)))


def read_view(record: Mapping[str, str]) -> JobView:
    """A job record as callers see it.

    Raises:
        JobUnreadable: the record was written by a newer version than this one can read.
        KeyError, ValueError, TypeError, AttributeError: it was written by somebody else; see
            ``read_record``.
    """
    check_version(record)
    run = _run_of(record)
    return JobView(
        spec=JobSpec.model_validate_json(record["spec"]),
        status=JobStatus(record["status"]),
        created=int(record["created"]),
        epoch=int(record["epoch"]),
        tries=int(record["tries"]),
        steps=run.get("steps", 0),
        usage=usage_of(run),
        active_ms=run.get("active_ms", 0),
        granted=run.get("granted", {}),
        worker=record.get("owner"),
        children=tuple(run.get("children", ())),
        due=int(record["due_at"]) if "due_at" in record else None,
        pause=open_pause(record) if record["status"] == JobStatus.PAUSED else None,
        answered=_parsed(AnsweredPause, record.get("answered")),
        outcome=_parsed(Outcome, record.get("outcome")),
        cancel_requested="cancel" in record,
        pause_wanted=_parsed(Wish, record.get("halt")),
        unheard=int(record.get("mail", 0)) - int(record.get("heard", 0)),
        published="published" in record,
    )


def read_record(job_id: str, raw: Mapping[bytes, bytes]) -> JobView:
    """A job as callers see it, from its hash.

    Raises:
        JobUnreadable: says what is wrong with the record.
    """
    try:
        return read_view(texts_of(job_id, raw))
    except JobUnreadable as error:
        raise unreadable(job_id, "record", str(error)) from None
    except ValidationError as error:
        raise unreadable(job_id, "record", one_line(error)) from None
    except KeyError as error:
        raise unreadable(job_id, "record", f"the field {error} is missing") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise unreadable(job_id, "record", " ".join(str(error).split())) from None


_SHOWN_OF_PAUSE = ("id", "kind", "accepts", "labels", "step")
PARTLY = {"pause": PAUSE, "outcome": OUTCOME, "cancel": OUTCOME}
_PLACES = {"mail": MAIL, "message": MAIL, "pause_wanted": "halt"}
_WHOLE = ("spec", "run", "signal", "halt")
_PLAIN_EVENTS: Mapping[str, Collection[str]] = {
    "submitted": (),
    "claimed": ("worker", "tries", "was"),
    "cancelled": (),
    "reminder": ("pause", "kind", "labels"),
    "escalated": ("pause", "kind", "labels"),
}
"""Kinds of trace records that scripts write, with the fields that these have: they hold no text."""
PLAIN_OF_TOLD = ("pause", "kind", "labels", "signal", "by", "reason")
"""Fields of what is told of all jobs; they hold no text either."""
_ENDS = ("finished", "failed", "cancelled")


def spec_of(job_id: str, stored: bytes) -> JobSpec:
    """The spec in a job's record.

    Raises:
        JobUnreadable
    """
    try:
        return JobSpec.model_validate_json(unseal(stored, job_id, "spec"))
    except ValidationError as error:
        raise unreadable(job_id, "record", one_line(error)) from None
    except ValueError as error:
        raise unreadable(job_id, "record", str(error)) from None


def texts_of(job_id: str, raw: Mapping[bytes, bytes]) -> dict[str, str]:
    """A job's hash as texts.

    Raises:
        CannotOpen: one of them is encrypted, and this program cannot open it.
        ValueError: one of them was packed in a way that this program does not know.
    """
    return {name.decode(): field_text(job_id, name.decode(), raw[name]) for name in raw}


def field_text(job_id: str, name: str, value: bytes) -> str:
    """One field of a job's record; raises what ``texts_of`` does."""
    if name == "run":
        return _run_text(job_id, value)
    if place := PARTLY.get(name):
        return reveal(value, job_id, place)
    if is_sealed_field(name):
        return unsealed(value, job_id, field_place(name))
    return decoded(value)


def is_sealed_field(name: str) -> bool:
    """Whether a field of a record is sealed where there are keys; scripts read the others."""
    return name in _WHOLE or name in PARTLY or name.startswith("mail:")


def field_place(name: str) -> str:
    """The place for which a field of a record is sealed."""
    kind = name.partition(":")[0]
    return _PLACES.get(kind, kind)


def _run_text(job_id: str, value: bytes) -> str:
    seq, blank, run = value.partition(b" ")
    return (seq + blank + unseal(run, job_id, "run")).decode()


def sealed_run(job_id: str, numbered_run: str) -> str | bytes:
    """The ``run`` field as it is stored: the number of its commit can be read by scripts."""
    if not keyring() and not is_long(numbered_run):
        return numbered_run
    seq, blank, run = numbered_run.partition(" ")
    sealed = seal(run, job_id, "run")
    if isinstance(sealed, str):
        return numbered_run
    return (seq + blank).encode() + sealed


def stored_outcome(outcome: Outcome, job_id: str) -> str | bytes:
    """An outcome as it is stored. Scripts read why a job failed, so that stays as it is."""
    if outcome.ok:
        return seal(outcome.model_dump_json(), job_id, OUTCOME)
    return hide(outcome.model_dump(mode="json"), ("ok", "reason"), job_id, OUTCOME)


def stored_pause(pause: Pause, job_id: str) -> str:
    """A pause as it is stored; scripts read who may answer it, in which way and until when."""
    text = pause.stored()
    if not keyring():
        return text
    value = json.loads(text)
    shown = {name: value[name] for name in _SHOWN_OF_PAUSE if name in value}
    if "timetable" in value:
        shown["timetable"] = [
            {name: item for name, item in entry.items() if name != "signal"}
            for entry in value["timetable"]
        ]
    return dumps({**shown, **json.loads(hide(value, (), job_id, PAUSE))})


def event_place(kind: str) -> str:
    """The place for which a trace record of this kind is sealed; some stand in the record, too."""
    return kind if kind == "signal" else _PLACES.get(kind, TRACE)


def event_text(job_id: str, kind: str, value: bytes) -> str:
    """One record of a trace; raises what ``texts_of`` does."""
    return reveal(value, job_id, event_place(kind), _PLAIN_EVENTS.get(kind, ()))


def event_is_plain(kind: str, value: bytes) -> bool:
    """Whether a record of a trace is one that scripts write, and that holds no text."""
    return not value.startswith(SEALED) and holds_only(
        json.loads(decoded(value)), _PLAIN_EVENTS.get(kind, ())
    )


def told_place(event: str) -> str:
    """The place for which the payload of an announcement is sealed: an outcome, or a pause."""
    return OUTCOME if event in _ENDS else PAUSE


def read_message(job_id: str, number: int, text: bytes) -> dict[str, Any]:
    """One message of a transcript.

    Raises:
        JobUnreadable: it is no JSON object.
    """
    try:
        message = json.loads(unseal(text, job_id, MESSAGE))
    except (ValueError, RecursionError) as error:
        raise unreadable(job_id, f"message {number}", _why_not_json(error)) from None
    if not isinstance(message, dict):
        raise unreadable(job_id, f"message {number}", f"{shorten(message)} is no JSON object")
    return message


def _why_not_json(error: Exception) -> str:
    return str(error) if isinstance(error, CannotOpen) else f"not JSON: {error}"


def _run_of(record: Mapping[str, str]) -> dict[str, Any]:
    _, text = numbered(record.get("run"))
    return {} if text is None else read_run(text)


def usage_of(run: Mapping[str, Any]) -> Usage:
    """The account in a run state."""
    account = read_usage(run.get("usage", []))
    micros = account.pop("cost_micros")
    return Usage(**account, cost=micros / 1e6 if micros else None)


def children_of(record: Mapping[str, str]) -> tuple[str, ...]:
    """Ids of the sub-jobs whose answers a job has not taken up."""
    return tuple(_run_of(record).get("children", ()))


def open_pause(record: Mapping[str, str]) -> Pause:
    """The pause of a job that is paused, as it stands now."""
    labels = record.get("labels")
    return Pause.model_validate_json(record["pause"]).standing(
        created=int(record["since"]),
        kept=int(record.get("kept", 0)),
        asked=int(record.get("asked", 0)),
        labels=None if labels is None else json.loads(labels),
    )


def read_mail(record: Mapping[str, str]) -> list[Mail]:
    """The messages of people that the model has not been shown, in their order."""
    numbers = range(int(record.get("heard", 0)) + 1, int(record.get("mail", 0)) + 1)
    return [
        Mail.model_validate_json(record[f"mail:{number}"]).model_copy(update={"number": number})
        for number in numbers
    ]


def check_version(record: Mapping[str, str]) -> None:
    """Refuse a record of a newer schema.

    Raises:
        JobUnreadable: naming both versions.
    """
    version = int(record.get("v", "0"))
    if version > SCHEMA_VERSION:
        raise JobUnreadable(
            f"the job record has schema version {version}, this program reads up to "
            f"{SCHEMA_VERSION}; upgrade it"
        )


def _parsed(model: Any, text: str | None) -> Any:
    return None if text is None else model.model_validate_json(text)


def check_offset(after: str) -> None:
    """Refuse what cannot be an offset in a trace.

    Raises:
        InvalidInput: it is neither an event's id nor a time in milliseconds.
    """
    if not EVENT_ID_PATTERN.fullmatch(after):
        raise InvalidInput(
            f"trace offset {shorten(after)}: give the id of an event as it was read, like "
            "1700000000000-0, or 0 for the beginning"
        )


def read_event(job_id: str, event_id: bytes, fields: Mapping[bytes, bytes]) -> Event:
    """One record of a trace stream; of the kind ``unreadable`` if somebody else has written it."""
    try:
        [(name, value)] = fields.items()
        text = event_text(job_id, name.decode(), value)
        kind, data = runs.read_event(name.decode(), text)
        return Event(id=event_id.decode(), kind=kind, data=data)
    except (ValueError, TypeError) as error:
        why = one_line(error) if isinstance(error, ValidationError) else str(error)
        return Event(id=event_id.decode(), kind="unreadable", data={"text": shorten(why, 200)})


def one_line(error: ValidationError) -> str:
    """A pydantic error as one line: each place, what is wrong with it, and the value."""
    parts = []
    for item in error.errors(include_url=False):
        place = _cut(".".join(str(part) for part in item["loc"])) or "value"
        message = item["msg"].removeprefix("Value error, ")
        parts.append(f"{place}: {message} (given: {_shown(item.get('input'))})")
    return "; ".join(parts)


def _shown(value: Any) -> str:
    try:
        return _cut(repr(value))
    except RecursionError:
        return "a value nested too deeply to show"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
