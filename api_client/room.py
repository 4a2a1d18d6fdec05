"""Whether there is room for another job: in the server's memory, and in its tenant's quota.

Redis refuses every write when its memory is full, the commits of running jobs among them. So new
jobs are refused before that; and a tenant with a quota can't fill it at the cost of the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from redis.exceptions import ResponseError

from api_client.connection import Client, translated
from api_client.errors import StorageFull, StoreUnavailable, shorten
from api_client.keys import Keys
from api_client.scripts import Argument, Scripts
from api_client.sizes import setting_name, sizes

LOOK_EVERY_S = 1.0
LOOK_AGAIN_S = 60.0
"""Where the server has no limit, or does not tell."""

_SCRIPTS = Scripts("api_client")


class Memory:
    """How much of the server's memory is used, asked at most once a second.

    Args:
        clock: monotonic seconds.
    """

    def __init__(
        self, client: Client, where: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._redis = client
        self._where = where
        self._clock = clock
        self._lock = threading.Lock()
        self._until = float("-inf")
        self._used = self._most = 0

    def check(self) -> None:
        """Refuse a new job if the memory is nearly full.

        Raises:
            StorageFull
        """
        share = sizes().memory_share
        if not share:
            return
        with self._lock:
            if self._clock() >= self._until:
                self._look()
        if self._most and self._used >= share * self._most:
            raise StorageFull(
                f"{self._where} uses {self._used:,} of {self._most:,} bytes (maxmemory): from "
                f"{share:.0%} on ({setting_name('memory_share')}) no new job is accepted, so that "
                "running ones can end; purge ended jobs, shorten STEPKEEPER_RETENTION_S, or "
                "raise maxmemory"
            )

    def _look(self) -> None:
        try:
            with translated(self._where):
                info = self._redis.info("memory")
        except (StoreUnavailable, ResponseError):  # it may not ask; whatever else, the script tells
            info = {}
        self._used, self._most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
        self._until = self._clock() + (LOOK_EVERY_S if self._most else LOOK_AGAIN_S)


class Quotas:
    """The bytes that are stored for each tenant; counted only where the settings ask for a quota.

    Kept in each partition in two hashes beside the indexes: ``…is:held`` by job, and
    ``…is:held:tenants`` the sums. A job counts with its input and its messages, as JSON before it
    is compressed, until it is forgotten.
    """

    def __init__(self, client: Client, where: str, partitions: Sequence[Keys]) -> None:
        self._redis = client
        self._where = where
        self._partitions = partitions

    def held(self, tenant: str) -> int:
        """The bytes that are stored for a tenant."""
        with translated(self._where):
            pipeline = self._redis.pipeline(transaction=False)
            for keys in self._partitions:
                pipeline.hget(keys.held_sums, tenant)
            return sum(int(value or 0) for value in pipeline.execute())

    def check(self, tenant: str) -> None:
        """Refuse a new job of a tenant whose quota is used up.

        Raises:
            StorageFull
        """
        if tenant and sizes().tenant_quota_bytes:
            check_quota(tenant, self.held(tenant))

    def hold(self, keys: Keys, job_id: str, tenant: str, size: int) -> None:
        """A job now takes so many bytes."""
        if tenant and sizes().tenant_quota_bytes:
            with translated(self._where):
                args: list[Argument] = [job_id, size, tenant]
                _SCRIPTS.run(self._redis, "hold", [keys.held, keys.held_sums], args)


def check_quota(tenant: str, held: int) -> None:
    """Refuse a new job of a tenant for which so many bytes are stored.

    Raises:
        StorageFull: they are as many as its quota allows, or more.
    """
    quota = sizes().tenant_quota_bytes
    if quota and held >= quota:
        raise StorageFull(
            f"tenant {shorten(tenant)}: {held:,} bytes are stored for it, at most {quota:,} may be "
            f"({setting_name('tenant_quota_bytes')}); wait until jobs of it are forgotten, purge "
            "ended ones, or raise the quota"
        )
