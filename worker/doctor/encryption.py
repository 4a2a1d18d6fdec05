"""Keys for encryption: those of this program, those of workers, and those that jobs need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from api_client.sealing import REQUIRED, SETTING, keyring
from api_client.survey import KeysInUse, SurveyStore
from api_client.workers import WorkerInfo
from worker.doctor.findings import Findings, advice, error, warning

AREA = "encryption"


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What was found. Keys are known by their names, which tell nothing of them.

    Attributes:
        here: the keys of this program, the one that encrypts first.
        required: whether it refuses what stands in the clear.
        writes: whether it should be able to do what jobs need.
        used: with which keys jobs are encrypted.
        workers: those that run, with theirs.
    """

    here: Sequence[str] = ()
    required: bool = False
    writes: bool = True
    used: KeysInUse = field(default_factory=KeysInUse)
    workers: Sequence[WorkerInfo] = ()


def gather(store: SurveyStore, *, writes: bool = True) -> KeyFacts:
    """Ask the store.

    Raises:
        StoreUnavailable
    """
    ring = keyring()
    return KeyFacts(ring.names, ring.required, writes, store.keys_in_use(), store.workers())


def check(facts: KeyFacts) -> Findings:
    """All checks of keys."""
    yield from _missing_here(facts)
    yield from _missing_at_workers(facts)
    yield from _in_the_clear(facts)
    yield from _unused(facts)
    if facts.here and not facts.required:
        yield advice(
            AREA, REQUIRED, "what stands in the store in the clear is taken as if it were sealed: "
            "who may write there can replace an encrypted text by one of his own",
            f"{'stepkeeper rekey, then ' if facts.used.jobs[''] else ''}set it to true in every "
            "program",
        )  # fmt: skip


def _missing_here(facts: KeyFacts) -> Findings:
    """A program that only looks may do without keys."""
    level = error if facts.writes else warning
    for name in sorted(set(facts.used.jobs) - {"", *facts.here}):
        yield level(
            AREA, SETTING, f"{_jobs(facts, name)} encrypted with the key {name}, which is missing "
            "here: nobody can read them here",
            "add the key, behind the first one",
        )  # fmt: skip


def _missing_at_workers(facts: KeyFacts) -> Findings:
    needed = {*facts.used.jobs, *facts.here[:1]}
    needed |= {name for worker in facts.workers for name in (worker.keys or ())[:1]}
    for worker in facts.workers:
        missing = sorted(needed - {"", *(worker.keys or ())})
        if worker.keys is None or not missing:
            continue
        yield error(
            AREA, SETTING, f"worker {worker.name} has not the key {', '.join(missing)}: it leaves "
            "alone the jobs that are encrypted with it",
            "give every program the same keys",
        )  # fmt: skip


def _in_the_clear(facts: KeyFacts) -> Findings:
    if facts.required and facts.used.jobs[""]:
        yield error(
            AREA, REQUIRED, f"{_jobs(facts, '')} in the clear, and refused",
            f"find the program that submits without {SETTING}; stepkeeper rekey with {REQUIRED} "
            "off encrypts what it has written",
        )  # fmt: skip


def _unused(facts: KeyFacts) -> Findings:
    if not facts.used.complete or not facts.used.jobs:
        return
    for name in _others(facts):
        yield advice(
            AREA, SETTING, f"no job is encrypted with the key {name}, and it does not stand first",
            "an old key: take it away once stepkeeper rekey finds nothing left; a new one: put it "
            "first, when every program has it",
        )  # fmt: skip


def _others(facts: KeyFacts) -> Iterator[str]:
    return (name for name in facts.here[1:] if name not in facts.used.jobs)


def _jobs(facts: KeyFacts, name: str) -> str:
    """How many jobs have a key, and one of them."""
    count, more = facts.used.jobs[name], "" if facts.used.complete else "at least "
    example = facts.used.examples[name]
    return f"job {example} is" if count == 1 else f"{more}{count} jobs, such as {example}, are"
