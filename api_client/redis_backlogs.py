"""Backlogs on Redis: counted from the lists of jobs, capped in a hash of each partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from api_client.backlogs import WAITING, Backlog, Kind, backlogs_of, cap_name, checked_cap
from api_client.connection import Client, translated
from api_client.contract import AgentInfo
from api_client.keys import Keys
from api_client.scripts import Argument, Scripts
from api_client.tenants import shares_of

_SCRIPTS = Scripts("api_client")


def stored_caps(cap: int, partitions: int) -> Iterator[str]:
    """What each partition keeps of a cap: its share, and the whole."""
    for share in shares_of(cap or None, partitions):
        yield f"{share} {cap}"


class RedisBacklogs:
    """Mixed into ``RedisJobStore``, which has the connection."""

    _redis: Client
    _where: str
    _partitions: tuple[Keys, ...]

    def _run(
        self,
        name: str,
        keys: Sequence[str],
        args: Sequence[Argument],
        scripts: Scripts = _SCRIPTS,
    ) -> Any:
        raise NotImplementedError

    def agents(self) -> Sequence[AgentInfo]:
        """See ``JobStore.agents``."""
        raise NotImplementedError

    def set_cap(self, kind: Kind, name: str, cap: int | None) -> bool:
        """See ``JobStore.set_cap``."""
        field = cap_name(kind, name)
        texts = [""] * len(self._partitions)
        if cap is not None:
            texts = list(stored_caps(checked_cap(kind, name, cap), len(self._partitions)))
        done = [
            self._run("cap", [keys.caps], [field, text])
            for keys, text in zip(self._partitions, texts, strict=True)
        ]
        return any(done)

    def backlogs(self) -> list[Backlog]:
        """See ``JobStore.backlogs``."""
        first = self._partitions[0]
        with translated(self._where):
            raw = self._redis.hgetall(first.caps)
            lanes = self._redis.hgetall(first.lanes)
        caps = {field.decode(): int(text.split()[1]) for field, text in raw.items()}
        queues = {info.name: info.queue for info in self.agents()}
        for name, queue in lanes.items():
            kind, _, agent = name.decode().partition(":")
            if kind == "agent":
                queues[agent] = queue.decode()
        capped = {field.partition(":")[2] for field in caps if field.startswith("agent:")}
        return backlogs_of(caps, queues, self._count_waiting(sorted({*queues, *capped})))

    def _count_waiting(self, agents: Iterable[str]) -> Counter[str]:
        """How many jobs wait for each of the agents."""
        asked = [(agent, status) for agent in agents for status in WAITING]
        found: Counter[str] = Counter()
        with translated(self._where):
            for keys in self._partitions:
                pipeline = self._redis.pipeline(transaction=False)
                for agent, status in asked:
                    pipeline.zcard(keys.facet(status, f"agent:{agent}"))
                for (agent, _), count in zip(asked, pipeline.execute(), strict=True):
                    found[agent] += int(count)
        return found
