"""What single acts cost on a real server: commands, microseconds of its time, bytes a paused job.

    python -m tests.simulation.costs redis://127.0.0.1:6379/15

The database must be empty, and is emptied again. The figures stand in ``fleet.py``.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable
from typing import Any

from api_client.connection import connect
from api_client.contract import JobSpec, JobStatus, Outcome
from api_client.tenants import TenantPolicy
from tests.contract.acts import QUESTION
from worker.store.base import Claimed, Progress, Settlement, Slots, Ticket
from worker.store.redis import RedisCheckpointStore

JOBS = 400
RUN = '{"w":1,"s":3,"a":1200,"u":[900,120]}'
TEXT = {"role": "assistant", "content": "r" * 200}


class Meter:
    """The server's counters around an act that is done for each of many jobs."""

    def __init__(self, url: str) -> None:
        self.client: Any = connect(url)
        self.store = RedisCheckpointStore(self.client)
        self.found: dict[str, dict[str, float]] = {}

    def each(self, name: str, ids: list[str], act: Callable[[str], Any]) -> list[Any]:
        """Do it for each job, and note what one costs."""
        before, busy = self._counters()
        done = [act(job_id) for job_id in ids]
        after, busier = self._counters()
        self.found[name] = {
            "commands": round((after - before) / len(ids), 1),
            "server_us": round((busier - busy) / len(ids), 1),
        }
        return done

    def _counters(self) -> tuple[int, int]:
        scripts = self.client.info("commandstats").get("cmdstat_evalsha", {"usec": 0})
        return int(self.client.info()["total_commands_processed"]), int(scripts["usec"])

    def memory(self) -> int:
        """Bytes of all data."""
        return int(self.client.info("memory")["used_memory_dataset"])


def measure(url: str, jobs: int = JOBS) -> dict[str, dict[str, float]]:
    """Every act once for each of many jobs, without and with a tenant."""
    meter = Meter(url)
    if meter.client.dbsize():
        raise SystemExit(f"{url} is not empty")
    meter.store.announce_slots(Slots("w1", 16, ["celery"], {"shop": "celery"}, 10**8))
    meter.store.set_policy("*", TenantPolicy(concurrency=10**6))
    for suffix, tenant in (("", ""), ("_tenant", "acme")):
        _life(meter, suffix, tenant, jobs)
    meter.found["paused"] = {"bytes": _paused(meter, jobs)}
    meter.client.flushdb()
    return meter.found


def _life(meter: Meter, suffix: str, tenant: str, jobs: int) -> None:
    """Everything that happens to a job of two slices."""
    store, ids = meter.store, [str(uuid.uuid4()) for _ in range(jobs)]

    def claim(job_id: str) -> Claimed:
        found = store.claim(job_id, owner="n/b/1/", nonce=job_id, lease_ms=60_000, max_tries=5)
        assert isinstance(found, Claimed), found
        return found

    def settle(held: Claimed, status: JobStatus, seq: int) -> None:
        payload = Outcome(ok=True, value="done") if status is JobStatus.SUCCEEDED else None
        ticket = Ticket(held.spec.job_id, held.epoch, seq)
        store.settle(ticket, Progress(RUN, "x", messages=[TEXT]), Settlement(status, payload))

    meter.each("submit" + suffix, ids, lambda i: store.create(_spec(i, tenant)))
    held = {h.spec.job_id: h for h in meter.each("claim" + suffix, ids, claim)}
    ticket = {i: Ticket(i, held[i].epoch, 1) for i in ids}
    progress = Progress(RUN, "reply", {"i": 1, "s": 1, "ms": 1, "in": 1, "out": 1}, [TEXT])
    meter.each("commit" + suffix, ids, lambda i: store.commit(ticket[i], progress))
    meter.each("renew" + suffix, ids, lambda i: store.renew([(i, held[i].epoch)], 60_000))
    meter.each("hand_over" + suffix, ids, lambda i: settle(held[i], JobStatus.QUEUED, 2))
    again = {h.spec.job_id: h for h in meter.each("claim_again" + suffix, ids, claim)}
    meter.each("end" + suffix, ids, lambda i: settle(again[i], JobStatus.SUCCEEDED, 3))
    meter.each("publish" + suffix, ids, store.published)
    grace = {"limit": 500, "grace_ms": 5000, "cap_ms": 300_000}
    meter.each("sweep" + suffix, ids[:50], lambda _: store.sweep(**grace))


def _paused(meter: Meter, jobs: int) -> float:
    """Bytes of a job that waits for a person, beside the text of three short messages."""
    store, before = meter.store, meter.memory()
    for _ in range(jobs):
        job_id = str(uuid.uuid4())
        store.create(_spec(job_id, ""))
        found = store.claim(job_id, owner="n/b/1/", nonce="n", lease_ms=60_000, max_tries=5)
        assert isinstance(found, Claimed)
        messages = [TEXT, TEXT, TEXT]
        progress = Progress(RUN, "paused", {"pause": "p1"}, messages)
        settlement = Settlement(JobStatus.PAUSED, QUESTION)
        store.settle(Ticket(job_id, found.epoch, 1), progress, settlement)
    return round((meter.memory() - before) / jobs - 3 * len(json.dumps(TEXT)), 0)


def _spec(job_id: str, tenant: str) -> JobSpec:
    return JobSpec(job_id=job_id, agent="shop", input="Where is order 1187?", tenant=tenant)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(sys.argv[1]), indent=1) + "\n")
