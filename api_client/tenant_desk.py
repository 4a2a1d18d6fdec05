"""What operators say and ask of tenants and of backlogs through the client."""

from __future__ import annotations

from api_client.backlogs import Backlog, Kind
from api_client.errors import InvalidInput
from api_client.store import JobStore
from api_client.tenants import DEFAULT_POLICY, Tenant, TenantPolicy, make_policy

_LIMITS = ("concurrency", "backlog")


class TenantDesk:
    """Mixed into ``AgentClient``, which has the store."""

    _store: JobStore

    def tenants(self) -> list[Tenant]:
        """Tenants that have jobs to run, or a policy, or have used steps lately, by name."""
        return self._store.tenants()

    def policies(self) -> dict[str, TenantPolicy]:
        """What tenants may have, by name; ``*`` is for those not named, ``""`` for all together."""
        return self._store.policies()

    def set_tenant(
        self,
        name: str,
        *,
        weight: float | None = None,
        concurrency: int | None = None,
        backlog: int | None = None,
    ) -> TenantPolicy:
        """Change what a tenant may have, for all workers, from its next turn on.

        What is not named stays as it is.

        Args:
            name: of the tenant; ``*``: each that has no policy; ``""``: the whole store.
            weight: its share of the steps, against the weights of others.
            concurrency: jobs that may run at once; 0: no limit.
            backlog: jobs that may wait to run; 0: no limit.

        Returns what it may have now.

        Raises:
            InvalidInput: names the field, the value and what is wrong.
            StoreUnavailable
        """
        given = {"weight": weight, "concurrency": concurrency, "backlog": backlog}
        named = {field: value for field, value in given.items() if value is not None}
        changes = {f: None if f in _LIMITS and v == 0 else v for f, v in named.items()}
        policy = make_policy(name, changes, self._store.policies().get(name, DEFAULT_POLICY))
        self._store.set_policy(name, policy)
        return policy

    def forget_tenant(self, name: str) -> bool:
        """Forget what a tenant may have; returns whether there was anything to forget."""
        known = name in self._store.policies()
        self._store.set_policy(name, None)
        return known

    def backlogs(self) -> list[Backlog]:
        """How many jobs wait for each agent and for each queue's agents, and how many may."""
        return self._store.backlogs()

    def set_backlog(self, cap: int, *, agent: str = "", queue: str = "") -> None:
        """Say how many jobs may wait for an agent, or for all agents of a queue, from now on.

        Args:
            cap: one job more is refused (``BacklogFull``); 0: no limit, whatever else is said.
            agent, queue: one of them; ``*``: each that has no cap of its own.

        Raises:
            InvalidInput: names what is wrong.
            StoreUnavailable
        """
        self._store.set_cap(*_named(agent, queue), cap)

    def forget_backlog(self, *, agent: str = "", queue: str = "") -> bool:
        """Forget the cap of an agent or a queue; returns whether there was anything to forget.

        That of the agent's code, or of ``*``, holds again.
        """
        return self._store.set_cap(*_named(agent, queue), None)


def _named(agent: str, queue: str) -> tuple[Kind, str]:
    """Whose backlog it is.

    Raises:
        InvalidInput: none of the two was given, or both.
    """
    if bool(agent) is bool(queue):
        raise InvalidInput("a backlog is an agent's or a queue's: name one of them")
    return ("agent", agent) if agent else ("queue", queue)
