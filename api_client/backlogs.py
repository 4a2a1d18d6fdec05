"""How many jobs wait to run, for each agent and queue, and how many may.

Caps of tenants and of the whole store are a part of their policies: ``api_client.tenants``. Every
cap is looked at by the script that accepts a job; ``backlog_full`` is the error for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal

from api_client.contract import AGENT_NAME_PATTERN, JobStatus
from api_client.errors import BacklogFull, InvalidInput, shorten
from api_client.shapes import Contract

Kind = Literal["agent", "queue"]
SetBy = Literal["command", "code", "*", ""]

EACH = "*"
"""The name under which the cap stands of each agent, or queue, that has none of its own."""

MOST = 10**9
MAX_QUEUE_CHARACTERS = 200

WAITING = (JobStatus.QUEUED, JobStatus.WAITING)
"""Where a job counts for a backlog: it could run, or does so later by itself."""


class Backlog(Contract):
    """The jobs that wait for one agent, or for the agents of one queue.

    Attributes:
        kind: ``agent`` or ``queue``.
        name: ``*``: what holds for each that has no cap of its own.
        present: jobs that wait to run, delayed ones among them.
        cap: how many may; ``None``: no limit.
        set_by: who says so: ``command``, ``code`` (``Agent(max_backlog=…)``), ``*``, or nobody.
    """

    kind: Kind
    name: str
    present: int = 0
    cap: int | None = None
    set_by: SetBy = ""


def cap_name(kind: str, name: str) -> str:
    """Under which name a cap is stored, such as ``agent:shop``.

    Raises:
        InvalidInput: it can be no agent's and no queue's name.
    """
    if kind == "agent" and name != EACH and not AGENT_NAME_PATTERN.fullmatch(name):
        raise InvalidInput(f"agent {shorten(name)}: 1 to 64 of A-Z a-z 0-9 _ -, or * for each")
    if not 1 <= len(name) <= MAX_QUEUE_CHARACTERS or not name.isprintable():
        most = MAX_QUEUE_CHARACTERS
        raise InvalidInput(f"queue {shorten(name)}: 1 to {most} printable characters, or *")
    return f"{kind}:{name}"


def checked_cap(kind: str, name: str, cap: int) -> int:
    """A cap as it is given; 0 is no limit.

    Raises:
        InvalidInput: names whose it is, the value and what is allowed.
    """
    if not 0 <= cap <= MOST:
        raise InvalidInput(f"backlog of {kind} {shorten(name)}: {cap} is not from 0 to {MOST:,}")
    return cap


def backlog_full(kind: str, name: str, present: int, cap: int, partitions: int = 1) -> BacklogFull:
    """The error for a job that is one too many.

    Args:
        kind: ``tenant``, whose name is empty for the whole store, ``agent`` or ``queue``.
        present, cap: of the job's partition.
    """
    whose = f"{kind} {shorten(name)}" if name else "the store"
    share = f" (its share of the cap, in one of {partitions} partitions)" if partitions > 1 else ""
    if kind == "tenant":
        command = f"tenants set {shorten(name) if name else '--all'} --backlog N"
    else:
        command = f"backlogs set --{kind} {shorten(name)} N"
    return BacklogFull(
        f"{whose}: {present} jobs wait already, and at most {cap} may{share}; nothing was "
        "accepted. Submit it again when some have run, or raise the cap: "
        f"stepkeeper {command}"
    )


def effective(caps: Mapping[str, int], kind: str, name: str) -> tuple[int | None, SetBy]:
    """The cap that holds for an agent or a queue, and who has set it."""
    said: tuple[tuple[str, SetBy], ...] = (
        (f"{kind}:{name}", "command"),
        (f"own:{name}" if kind == "agent" else "", "code"),
        (f"{kind}:{EACH}", "*"),
    )
    for field, set_by in said:
        if field in caps:
            return caps[field] or None, set_by
    return None, ""


def backlogs_of(
    caps: Mapping[str, int], queues: Mapping[str, str], present: Mapping[str, int]
) -> list[Backlog]:
    """Every backlog that has a name: agents first, then queues, each by name, ``*`` last.

    Args:
        caps: by their stored names; 0 is no limit.
        queues: the queue of each agent that is known; ``""`` if that is not known.
        present: jobs that wait, by agent.
    """
    by_queue: Counter[str] = Counter()
    for agent, queue in queues.items():
        by_queue[queue] += present.get(agent, 0)
    named: dict[Kind, set[str]] = {"agent": set(queues), "queue": set(by_queue) - {""}}
    for kind, names in named.items():
        names |= {field[len(kind) + 1 :] for field in caps if field.startswith(f"{kind}:")}
    counts: dict[Kind, Mapping[str, int]] = {"agent": present, "queue": by_queue}
    return [
        _backlog(caps, kind, name, counts[kind].get(name, 0))
        for kind, names in named.items()
        for name in sorted(names, key=lambda name: (name == EACH, name))
    ]


def _backlog(caps: Mapping[str, int], kind: Kind, name: str, present: int) -> Backlog:
    cap, set_by = effective(caps, kind, name)
    return Backlog(kind=kind, name=name, present=present, cap=cap, set_by=set_by)
