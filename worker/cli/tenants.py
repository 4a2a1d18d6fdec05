"""``tenants``: what each tenant may have, and how much of it each uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import failures
from worker.cli.command import command
from worker.cli.limits import Listing

if TYPE_CHECKING:
    from api_client.tenants import Tenant, TenantPolicy
    from worker.cli.session import Session

NameArgument = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="The tenant; '*': each that has no policy of its own."),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="The whole store, jobs without a tenant included.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    tenants = typer.Typer(help="Shares and limits of tenants, for all workers.", cls=Listing)
    command(tenants, "list")(list_tenants)
    command(tenants, "set")(set_policy)
    command(tenants, "unset")(unset_policy)
    app.add_typer(tenants, name="tenants")


def list_tenants(session: Session) -> int:
    """Each tenant's share and limits, and where its jobs stand."""
    from api_client.tenants import EVERY_TENANT, EVERYBODY
    from worker.cli.tables import Listing as Table

    found, policies = session.client.tenants(), session.client.policies()
    general = {name: policies[name] for name in (EVERY_TENANT, EVERYBODY) if name in policies}
    values = {
        "tenants": [tenant.model_dump(mode="json") for tenant in found],
        "policies": {name: policy.model_dump() for name, policy in general.items()},
    }
    rows = [(tenant.name, *_limits(tenant.policy), *_use(tenant)) for tenant in found]
    blank = ("",) * 5
    rows += [(name or "(all)", *_limits(policy), *blank) for name, policy in general.items()]
    names = ("tenant", "weight", "at once", "backlog", "running", "ready", "waiting", "paused")
    table = Table((*names, "steps"), rows)
    session.out.result(values, table if rows else "no tenant has jobs or a policy")
    return failures.OK


def _limits(policy: TenantPolicy) -> tuple[str, ...]:
    return f"{policy.weight:g}", _number(policy.concurrency), _number(policy.backlog)


def _number(limit: int | None) -> str:
    return "" if limit is None else f"{limit:,}"


def _use(tenant: Tenant) -> tuple[str, ...]:
    counts = (tenant.running, tenant.ready, tenant.waiting, tenant.paused, tenant.steps)
    return tuple(f"{count:,}" for count in counts)


def set_policy(
    session: Session,
    name: NameArgument = None,
    everybody: AllOption = False,
    weight: Annotated[
        float | None, typer.Option(help="Its share, against the weights of others. At first 1.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Jobs that may run at once; 0: no limit.")
    ] = None,
    backlog: Annotated[
        int | None, typer.Option(help="Jobs that may wait to run; 0: no limit.")
    ] = None,
) -> int:
    """Change what a tenant may have; what is not named stays. Holds at once, for all workers."""
    chosen = _chosen(name, everybody)
    policy = session.client.set_tenant(
        chosen, weight=weight, concurrency=concurrency, backlog=backlog
    )
    value = {"tenant": chosen, "policy": policy.model_dump()}
    session.out.result(value, f"{_called(chosen)}: {_words(policy)}")
    return failures.OK


def unset_policy(session: Session, name: NameArgument = None, everybody: AllOption = False) -> int:
    """Forget what a tenant may have; that of '*' holds again."""
    chosen = _chosen(name, everybody)
    known = session.client.forget_tenant(chosen)
    text = "its policy is forgotten" if known else "it has no policy"
    session.out.result({"tenant": chosen, "forgotten": known}, f"{_called(chosen)}: {text}")
    return failures.OK


def _chosen(name: str | None, everybody: bool) -> str:
    """The name of a policy.

    Raises:
        InvalidInput: none was given, or two.
    """
    from api_client.errors import InvalidInput
    from api_client.tenants import EVERYBODY

    if (not name) is not everybody:
        raise InvalidInput("give the name of a tenant, '*' for each without a policy, or --all")
    return name or EVERYBODY


def _called(name: str) -> str:
    return f"tenant {name}" if name else "the whole store"


def _words(policy: TenantPolicy) -> str:
    limits = (
        f"at most {policy.concurrency:,} jobs at once" if policy.concurrency else "",
        f"at most {policy.backlog:,} jobs that wait" if policy.backlog else "",
    )
    return ", ".join([f"weight {policy.weight:g}", *filter(None, limits)])
