"""How the limits of all models stand, for people and for programs that watch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from worker.flow.base import Ledger, Limit, Use


@dataclass(frozen=True, slots=True)
class Standing:
    """One model's limit, and what is used of it.

    Attributes:
        set_by: where the limit comes from; ``command`` goes before ``settings``.
    """

    key: str
    limit: Limit
    use: Use
    set_by: Literal["command", "settings"]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "key": self.key,
            "set_by": self.set_by,
            "limit": self.limit.model_dump(),
            "use": asdict(self.use),
        }


def standings(ledger: Ledger, settings: Mapping[str, Limit]) -> list[Standing]:
    """Every model that has a limit, by key.

    Args:
        settings: the limits that hold where none was set by command.

    Raises:
        StoreUnavailable
    """
    stored = ledger.limits()
    return [
        Standing(key, limit, ledger.use(key), "command" if key in stored else "settings")
        for key, limit in sorted({**settings, **stored}.items())
    ]
