"""Every Redis key, as pure functions.

Keys of one job and of the indexes it stands in carry one hash tag, ``{sk:P}``, so that a commit
is one script call on one slot of a cluster. ``P`` is the job's partition. The names are short
because each commit writes three of them to the append-only file.

========================  ======  ==============================================================
``{sk:P}:j:ID``           hash    the job record (fields: see ``lua/create.lua``)
``{sk:P}:m:SHORT``        list    the transcript, one JSON message an element
``{sk:P}:t:SHORT``        stream  one record a commit, pause, signal, …
``{sk:P}:l:ID``           stream  pieces of replies while they come, kept for a short time
``{sk:P}:due``            zset    job ids by the time (ms) at which a sweep must look at them
``{sk:P}:is:STATUS``      zset    job ids by the time (ms) at which they entered that status
``{sk:P}:is:STATUS:F``     zset    those of one facet, such as ``agent:shop``, likewise
``{sk:P}:is:poison``      zset    the failed ones in quarantine, likewise
``{sk:P}:is:published``   zset    job ids by the time (ms) at which their keys expire
``{sk:P}:is:lists``       hash    the lists in which jobs stand whose keys will expire
``{sk:P}:is:paused:deadline``  zset  all paused jobs by deadline; those without one come last
``{sk:P}:is:held``        hash    bytes that jobs take of their tenants' quotas, if there are any
``{sk:P}:is:held:tenants``  hash  the sums of these by tenant
``{sk:P}:events``         stream  what happened to all jobs, the latest 10,000 records
``{sk:P}:post:ID``        hash    a job's announcements, and how far each has come
``{sk:P}:outbox``         zset    announcements by the time (ms) of their next attempt
``{sk:P}:posted``         zset    the latest that are delivered or given up, by time (ms)
``{sk:P}:tenants``        hash    policies, by tenant
``{sk:P}:caps``           hash    most jobs that may wait, by ``agent:NAME`` or ``queue:NAME``
``{sk:P}:counts``         hash    jobs by turn, of each tenant and lane, as ``running:acme``
``{sk:P}:lanes``          hash    slots of each queue, and the queue of each agent
``{sk:P}:nodes``          hash    the workers that have announced those
``{sk:P}:turns``          hash    lanes in which somebody waits or runs, and the time of each
``{sk:P}:tags:LANE``      zset    tenants of a lane by the time at which their next turn is
``{sk:P}:fair:LANE``      zset    those of them that have jobs waiting and may start one, likewise
``{sk:P}:hinted:LANE``    zset    jobs that are hinted and not claimed yet, by time (ms)
``{sk:P}:ready:…``        zset    jobs of a lane and tenant that wait for their turn, in order
``{sk:P}:parked:TENANT``  set     lanes in which a tenant at its limit waits
``{sk:P}:used:DAY``       hash    steps that each tenant has used on a day (UTC), for two days
``sk:limits``             hash    limits of models that were set at run time, JSON by model key
``{sk:f:KEY}:…``          (some)  the use of one model key, and its queue: see ``worker.flow.redis``
``sk:agents``             hash    agents that workers have announced
``sk:workers``            hash    the workers themselves, by node name, and their last heartbeat
========================  ======  ==============================================================
"""

from __future__ import annotations

import base64
import re
import zlib

from api_client.contract import JobStatus

AGENTS = "sk:agents"
WORKERS = "sk:workers"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


def partition_of(job_id: str, partitions: int) -> int:
    """The partition, ``0`` to ``partitions - 1``, in which a job lives."""
    return zlib.crc32(job_id.encode()) % partitions if partitions > 1 else 0


def short(job_id: str) -> str:
    """The id as it stands in the names of transcript and trace.

    A UUID in its usual form becomes ``~`` and its 16 bytes in base64url (RFC 4648), 22 characters
    for 36; any other id stays as it is. ``~`` is in no job id, so two ids never meet.
    """
    if not _UUID.fullmatch(job_id):
        return job_id
    return "~" + base64.urlsafe_b64encode(bytes.fromhex(job_id.replace("-", ""))).decode()[:22]


class Keys:
    """The keys of one partition."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.prefix = f"{{sk:{partition}}}:"
        self.due = f"{self.prefix}due"
        self.job_prefix = f"{self.prefix}j:"
        self.index_prefix = f"{self.prefix}is:"
        self.events = f"{self.prefix}events"
        self.post_prefix = f"{self.prefix}post:"
        self.outbox = f"{self.prefix}outbox"
        self.posted = f"{self.prefix}posted"
        self.policies = f"{self.prefix}tenants"
        self.caps = f"{self.prefix}caps"
        self.counts = f"{self.prefix}counts"
        self.lanes = f"{self.prefix}lanes"
        self.nodes = f"{self.prefix}nodes"

    @property
    def held(self) -> str:
        """Bytes that jobs take of their tenants' quotas."""
        return f"{self.index_prefix}held"

    @property
    def held_sums(self) -> str:
        """The sums of these by tenant."""
        return f"{self.index_prefix}held:tenants"

    def job(self, job_id: str) -> str:
        """The record."""
        return self.job_prefix + job_id

    def messages(self, job_id: str) -> str:
        """The transcript."""
        return f"{self.prefix}m:{short(job_id)}"

    def trace(self, job_id: str) -> str:
        """The trace."""
        return f"{self.prefix}t:{short(job_id)}"

    def live(self, job_id: str) -> str:
        """The pieces of replies that are still coming."""
        return f"{self.prefix}l:{job_id}"

    def used(self, day: int) -> str:
        """The steps that tenants have used on a day, counted since the epoch."""
        return f"{self.prefix}used:{day}"

    def index(self, status: JobStatus) -> str:
        """The index of the jobs that are in ``status``."""
        return self.index_prefix + status

    def facet(self, status: JobStatus, facet: str) -> str:
        """The index of the jobs in ``status`` of a facet, as ``agent:shop`` or ``label:sales``."""
        return f"{self.index_prefix}{status}:{facet}"

    def of_job(self, job_id: str) -> list[str]:
        """What a commit needs: record, transcript, trace."""
        return [self.job(job_id), self.messages(job_id), self.trace(job_id)]

    def of_transition(self, job_id: str) -> list[str]:
        """What a change of status needs: the job's keys, the due index, the status indexes.

        The latter are given by their prefix: a script adds the status it finds, and every key
        that it can build lies in the same slot.
        """
        return [*self.of_job(job_id), self.due, self.index_prefix]

    def of_ending(self, job_id: str) -> list[str]:
        """What the end of a job needs: the same, and its live stream."""
        return [*self.of_transition(job_id), self.live(job_id)]

    def of_telling(self, job_id: str) -> list[str]:
        """What a change that others are told of needs: the same, and where it is told."""
        return [*self.of_ending(job_id), self.events, self.post_prefix + job_id, self.outbox]
