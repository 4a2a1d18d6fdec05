"""What operators say and ask of tenants through the client."""

from __future__ import annotations

from typing import Any

from api_client.store import JobStore
from api_client.tenants import DEFAULT_POLICY, Tenant, TenantPolicy, make_policy


class TenantDesk:
    """Mixed into ``AgentClient``, which has the store."""

    _store: JobStore

    def tenants(self) -> list[Tenant]:
        """Tenants that have jobs to run, or a policy, or have used steps lately, by name."""
        return self._store.tenants()

    def policies(self) -> dict[str, TenantPolicy]:
        """What tenants may have, by name; ``*`` is for those not named, ``""`` for all together."""
        return self._store.policies()

    def set_tenant(self, name: str, **changes: Any) -> TenantPolicy:
        """Change what a tenant may have, for all workers, from its next turn on.

        Args:
            name: of the tenant; ``*``: each that has no policy; ``""``: the whole store.
            changes: fields of ``TenantPolicy``: ``weight``, ``concurrency``, ``backlog``; what is
                not named stays as it is.

        Returns what it may have now.

        Raises:
            InvalidInput: names the field, the value and what is wrong.
            StoreUnavailable
        """
        policy = make_policy(name, changes, self._store.policies().get(name, DEFAULT_POLICY))
        self._store.set_policy(name, policy)
        return policy

    def forget_tenant(self, name: str) -> bool:
        """Forget what a tenant may have; returns whether there was anything to forget."""
        known = name in self._store.policies()
        self._store.set_policy(name, None)
        return known
