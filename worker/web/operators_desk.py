"""What operators see and do: shares, limits and backlogs, the quarantine, what is forgotten."""

from __future__ import annotations

from collections.abc import Callable

from api_client import AgentClient
from api_client.admin import AdminStore
from api_client.backlogs import Backlog, Kind
from api_client.contract import JobSpec, JobView
from api_client.tenants import EVERY_TENANT, EVERYBODY, Tenant, TenantPolicy
from worker.flow.standing import Standing
from worker.web.callers import Caller, Role
from worker.web.problems import Problem


class OperatorsDesk:
    """Mixed into ``Desk``, which finds the jobs.

    Args:
        models: the limits of models as they stand.
    """

    def __init__(
        self,
        client: AgentClient,
        store: AdminStore,
        caller: Caller,
        models: Callable[[], list[Standing]],
    ) -> None:
        self._client = client
        self._store = store
        self._models = models
        self.caller = caller

    def needs(self, *roles: Role) -> None:
        """Refuse a caller that has none of these roles.

        Raises:
            Problem: 403.
        """
        if not self.caller.has(*roles):
            raise Problem(
                403, "not-allowed", f"key {self.caller.name!r} has no role {' or '.join(roles)}"
            )

    def job(self, job_id: str) -> JobView:
        """See ``Desk``."""
        raise NotImplementedError

    def release(self, job_id: str) -> JobSpec:
        """Let a poison job go on under a new id. See ``AdminStore.release``."""
        self.needs(Role.OPERATE)
        self.job(job_id)
        spec = self._store.release(job_id)
        self._client.hint(spec)
        return spec

    def tenants(self) -> tuple[list[Tenant], dict[str, TenantPolicy]]:
        """Tenants as they stand, and what holds for all of them; a tenant's key sees its own."""
        self.needs(Role.OPERATE)
        own = self.caller.tenant
        found = [each for each in self._client.tenants() if own in ("", each.name)]
        general = () if own else (EVERY_TENANT, EVERYBODY)
        policies = self._client.policies()
        return found, {name: policies[name] for name in general if name in policies}

    def set_tenant(self, name: str, policy: TenantPolicy) -> TenantPolicy:
        """Say what a tenant may have, in place of its policy so far.

        Raises:
            InvalidInput
            Problem: the key belongs to a tenant.
        """
        self._for_all_tenants()
        return self._client.set_tenant(
            name,
            weight=policy.weight,
            concurrency=policy.concurrency or 0,
            backlog=policy.backlog or 0,
        )

    def forget_tenant(self, name: str) -> None:
        """Forget what a tenant may have; raises what ``set_tenant`` does."""
        self._for_all_tenants()
        self._client.forget_tenant(name)

    def _for_all_tenants(self) -> None:
        self.needs(Role.OPERATE)
        if self.caller.tenant:
            text = f"key {self.caller.name!r} belongs to a tenant: this is not its to change"
            raise Problem(403, "not-allowed", text)

    def models(self) -> list[Standing]:
        """The models that have a limit, by key; none for a tenant's key."""
        self.needs(Role.OPERATE)
        return [] if self.caller.tenant else self._models()

    def backlogs(self) -> list[Backlog]:
        """What waits for agents and queues, and may; nothing for a tenant's key."""
        self.needs(Role.OPERATE)
        return [] if self.caller.tenant else self._client.backlogs()

    def set_cap(self, kind: Kind, name: str, cap: int | None) -> None:
        """Say how many jobs may wait for an agent or a queue; ``None`` forgets it.

        Raises:
            InvalidInput
            Problem: the key belongs to a tenant.
        """
        self._for_all_tenants()
        self._store.set_cap(kind, name, cap)

    def purge(self, job_id: str, *, force: bool = False) -> None:
        """Forget a job that has ended. See ``AdminStore.purge``."""
        self.needs(Role.OPERATE)
        self.job(job_id)
        self._store.purge(job_id, force=force)
