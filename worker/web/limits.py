"""How often somebody may ask: a token bucket for each of them, shared by all servers.

Kept in Redis as ``sk:rate:NAME``, and gone from there as soon as the bucket is full again.
"""

from __future__ import annotations

from api_client.connection import Client, translated
from api_client.scripts import Argument, Scripts

RATE_PREFIX = "sk:rate:"

_SCRIPTS = Scripts("worker.web")


class RateLimit:
    """Buckets of one size.

    Args:
        client: an open redis-py client.
        per_s: tokens that come back each second.
        burst: tokens in a full bucket.
        where: what errors call the server.
    """

    def __init__(
        self, client: Client, per_s: float, burst: int, *, where: str = "the store"
    ) -> None:
        self._redis = client
        self._args: list[Argument] = [repr(float(per_s)), burst]
        self._where = where

    def take(self, name: str) -> float:
        """Take a token; 0.0, or the seconds until there will be one.

        Raises:
            StoreUnavailable
        """
        with translated(self._where):
            wait_ms = _SCRIPTS.run(self._redis, "bucket", [RATE_PREFIX + name], self._args)
        return int(wait_ms) / 1000
